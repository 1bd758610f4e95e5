//! Periodic work: connections that are idle, or do not identify themselves, for too long are
//! closed; expired keys, keys from before the last FLUSHALL and members of dead collections are
//! deleted.
//!
//! Readers report the expired keys that they find. Keys that no client reads are found in rounds
//! through all keys, once any key had an expiry. Each tick scans keys for a short time. While many
//! of them have expired, it goes on, for half of the time at most. So expired keys cannot pile up
//! for long, and a server where nothing expires is hardly disturbed.

mod counting;
mod rounds;

pub(crate) use counting::count_keys;

use crate::ops::{Enough, Ops};
use crate::peer::Peer;
use crate::resp::Replies;
use crate::shared::{Shared, count};
use crate::transact::transact;
use manx::txn::{Error, Session};
use rounds::{Looked, Rounds};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(500);
/// A tick scans keys for this time, unless many of them have expired.
const LOOK: Duration = Duration::from_millis(10);
/// The shortest pause, in which other threads work.
const PAUSE: Duration = Duration::from_millis(1);

/// Goes on until the server stops.
pub(crate) fn keep(shared: &Arc<Shared>) {
    let (mut session, mut rounds) = (None, Rounds::default());
    let half_idle = shared.options.idle_timeout.map_or(TICK, |time| time / 2);
    let tick = TICK.min(half_idle).min(shared.options.handshake_timeout / 2).max(PAUSE);
    let mut pause = tick;
    while !shared.stop.wait(pause) {
        pause = tick;
        disconnect_idle(shared);
        shared.memory.ask(&shared.store);
        let keyspace = &shared.keyspace;
        let has_expired = keyspace.expired.has_some() || keyspace.may_have_expiries();
        let was_flushed = keyspace.generation() > 0;
        if !has_expired && !was_flushed && !keyspace.may_have_collections() {
            continue;
        }
        if session.is_none() {
            session = shared.store.session().ok();
        }
        let Some(session) = &mut session else { continue };
        if has_expired && delete_expired(shared, session, &mut rounds) == Enough::No {
            pause = PAUSE;
        }
        if was_flushed && purge(shared, session, |ops| ops.purge_keys()) == Enough::No {
            pause = PAUSE;
        }
        if keyspace.may_have_collections() && purge(shared, session, |ops| ops.purge()) == Enough::No {
            pause = PAUSE;
        }
    }
}

/// Deletes for a while what no client sees any more, in steps that say whether there may be more,
/// and pauses for as long. Returns whether that is enough until the next tick.
fn purge(
    shared: &Shared,
    session: &mut Session,
    step: impl Fn(&mut Ops<'_, '_>) -> Result<bool, Error>,
) -> Enough {
    let began = Instant::now();
    let mut has_more = true;
    while has_more && began.elapsed() < LOOK {
        let purged = transact(shared, session, &mut Replies::new(0), |ops, _| step(ops));
        // What fails now is tried again with the next tick.
        has_more = matches!(purged, Ok(true));
    }
    if !has_more || shared.stop.wait(began.elapsed()) { Enough::Yes } else { Enough::No }
}

fn disconnect_idle(shared: &Shared) {
    let (handshake, idle) = (shared.options.handshake_timeout, shared.options.idle_timeout);
    // A client that waits for others is not idle, as in Redis.
    let waits = |peer: &Peer| peer.is_subscriber() || peer.waits();
    let is_idle = |peer: &Peer| {
        idle.is_some_and(|limit| u128::from(peer.idle_ms()) > limit.as_millis()) && !waits(peer)
    };
    for peer in shared.peers.filter(|peer| peer.is_late(handshake) || is_idle(peer)) {
        count(&shared.counts.idle);
        // It fails if the client has already disconnected.
        let _ = peer.socket.shutdown(Shutdown::Both);
    }
}

/// Deletes the expired keys that were reported or are found. Returns whether that is enough until
/// the next tick.
fn delete_expired(shared: &Shared, session: &mut Session, rounds: &mut Rounds) -> Enough {
    let mut looking = Duration::ZERO;
    loop {
        let began = Instant::now();
        // What fails now is tried again with the next tick.
        let Ok(looked) = rounds.next(shared, session) else { return Enough::Yes };
        let took = began.elapsed();
        looking += took;
        match looked {
            Looked::End => return Enough::Yes,
            Looked::Few if looking > LOOK => return Enough::Yes,
            Looked::Few => {}
            // A pause as long as the scan has taken.
            Looked::Many if shared.stop.wait(took.max(PAUSE)) => return Enough::Yes,
            // The other periodic work is due.
            Looked::Many if looking > TICK => return Enough::No,
            Looked::Many => {}
        }
    }
}
