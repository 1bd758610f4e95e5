//! What is done now and then: connections that are idle for too long are closed, and expired keys and members of dead collections are deleted.
//!
//! Readers tell of expired keys that they meet. Those that nobody reads are found in rounds through all keys, some at a time, once any key had an expiry.

use crate::collection;
use crate::ops::Enough;
use crate::resp::Replies;
use crate::shared::{Shared, count};
use crate::transact::transact;
use manx::txn::{Error, Session};
use std::net::Shutdown;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// How often.
const TICK: Duration = Duration::from_millis(500);
/// So many keys are looked at each time.
const KEYS: usize = 2_000;
/// So many pieces of dead collections are deleted each time.
const PIECES: usize = 64;

/// Goes on until the server stops.
pub(crate) fn keep(shared: &Arc<Shared>) {
    let mut session = None;
    let mut behind: Option<Box<[u8]>> = None;
    let half_idle = shared.options.idle_timeout.map_or(TICK, |time| time / 2);
    while !shared.stop.wait(TICK.min(half_idle).max(Duration::from_millis(1))) {
        disconnect_idle(shared);
        let mut keys = shared.keyspace.expired.take();
        if keys.is_empty() && !shared.keyspace.expires() && !shared.keyspace.collections() {
            continue;
        }
        if session.is_none() {
            session = shared.store.session().ok();
        }
        let Some(session) = &mut session else { continue };
        // What fails now is tried again with the next round.
        if shared.keyspace.expires() {
            let _ = look(shared, session, &mut behind);
        }
        keys.append(&mut shared.keyspace.expired.take());
        for key in keys {
            let _ = transact(shared, session, &mut Replies::new(0), |ops, _| ops.delete_expired(&key));
        }
        if shared.keyspace.collections() {
            for _ in 0..PIECES {
                let cleaned =
                    transact(shared, session, &mut Replies::new(0), |ops, _| collection::clean(ops));
                if !matches!(cleaned, Ok(true)) {
                    break;
                }
            }
        }
    }
}

fn disconnect_idle(shared: &Shared) {
    let Some(limit) = shared.options.idle_timeout else { return };
    for peer in shared.peers.snapshot() {
        if u128::from(peer.idle_ms()) > limit.as_millis() {
            count(&shared.counts.idle);
            // It fails if the client has gone already.
            let _ = peer.socket.shutdown(Shutdown::Both);
        }
    }
}

/// Looks at some keys behind the last one: the scan itself tells of those that have expired.
fn look(shared: &Shared, session: &mut Session, behind: &mut Option<Box<[u8]>>) -> Result<(), Error> {
    *behind = transact(shared, session, &mut Replies::new(0), |ops, _| {
        let from = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut seen, mut last) = (0, None);
        ops.scan(from, |key, _| {
            seen += 1;
            if seen == KEYS {
                last = Some(Box::from(key));
                return Enough::Yes;
            }
            Enough::No
        })?;
        Ok(last)
    })?;
    Ok(())
}
