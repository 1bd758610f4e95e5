//! Makes room for a write, if the server uses more memory than it may: keys go, as the options say.
//!
//! Each write that finds too little room evicts until there is enough, up to a number of keys. So a
//! client that writes pays for what it writes, and no command waits for long.
//!
//! What is already about to be deleted (members of dead collections, and keys from before FLUSHALL)
//! goes first: the housekeeping would do it a moment later, and a key that is evicted before that
//! is one too many. One thread at a time deletes it, since two would conflict; the writes of others
//! go on meanwhile.

use crate::ops::{Enough, Ops};
use crate::options::Eviction;
use crate::resp::Replies;
use crate::shared::{Shared, count};
use crate::transact::transact;
use manx::txn::{Error, Session};
use std::ops::Bound;

/// The number of keys that are compared before one is evicted, …
const SAMPLE: usize = 16;
/// … and the most that are looked at to find as many.
const LOOKED_MAX: usize = 1_000;
/// The maximum number of keys that are evicted for one write.
const EVICTED_MAX: usize = 64;

/// Returns whether there is room for a write, or was made, or is being made.
#[inline]
pub(crate) fn make_room(shared: &Shared, session: &mut Session) -> bool {
    !shared.memory.is_full(&shared.store) || evict(shared, session)
}

#[cold]
fn evict(shared: &Shared, session: &mut Session) -> bool {
    let policy = shared.options.eviction;
    if policy == Eviction::None {
        return false;
    }
    for _ in 0..EVICTED_MAX {
        // What the store refuses now, it refuses the write too.
        match purge(shared, session) {
            Ok(Purged::Some) => {}
            Ok(Purged::Nothing) => match evict_one(shared, session, policy) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => return true,
            },
            Ok(Purged::ByAnother) | Err(_) => return true,
        }
        if !shared.memory.is_full(&shared.store) {
            return true;
        }
    }
    true
}

/// What was deleted of the entries that no client sees any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purged {
    Some,
    /// There are none.
    Nothing,
    /// Another thread is deleting them.
    ByAnother,
}

/// Deletes some of the entries that no client sees any more.
fn purge(shared: &Shared, session: &mut Session) -> Result<Purged, Error> {
    let keyspace = &shared.keyspace;
    if keyspace.generation() == 0 && !keyspace.may_have_collections() {
        return Ok(Purged::Nothing);
    }
    let Some(_alone) = shared.purge.try_lock() else { return Ok(Purged::ByAnother) };
    let has_purged =
        transact(shared, session, &mut Replies::new(0), |ops, _| Ok(ops.purge_keys()? || ops.purge()?))?;
    Ok(if has_purged { Purged::Some } else { Purged::Nothing })
}

/// Returns whether there was a key to evict.
fn evict_one(shared: &Shared, session: &mut Session, policy: Eviction) -> Result<bool, Error> {
    // A key of the last samples may be gone, so several are tried.
    for _ in 0..SAMPLE {
        let Some(key) = next(shared, session, policy)? else { return Ok(false) };
        let evict = |ops: &mut Ops<'_, '_>, _: &mut Replies| ops.evict(&key, policy.is_volatile());
        if transact(shared, session, &mut Replies::new(0), evict)? {
            count(&shared.counts.evicted);
            return Ok(true);
        }
    }
    Ok(true)
}

/// Looks at some keys, and returns the best of them and of those before.
fn next(shared: &Shared, session: &mut Session, policy: Eviction) -> Result<Option<Box<[u8]>>, Error> {
    let mut candidates = shared.candidates.lock();
    let mut seen = 0;
    // From the last sample to the end, and on from the beginning.
    for _ in 0..2 {
        let mut looked = 0;
        let sample = |ops: &mut Ops<'_, '_>, _: &mut Replies| {
            let now_ms = ops.now_ms();
            let behind = candidates.behind.take();
            let from = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            ops.scan_all(from, |key, found| {
                looked += 1;
                let expires_ms = found.and_then(crate::value::Found::expires_ms);
                // A key that has expired goes first.
                let score = match (found, expires_ms) {
                    (None, _) => Some(u64::MAX),
                    (Some(_), None) if policy.is_volatile() => None,
                    (Some(_), _) => Some(match (policy, &shared.keyspace.access) {
                        (Eviction::VolatileTtl, _) => u64::MAX - expires_ms.unwrap_or(u64::MAX),
                        (_, Some(access)) => access.score(key, now_ms),
                        (_, None) => fastrand::u64(..),
                    }),
                };
                if let Some(score) = score {
                    candidates.see(score, key);
                    seen += 1;
                }
                if seen < SAMPLE && looked < LOOKED_MAX {
                    return Enough::No;
                }
                candidates.behind = Some(key.into());
                Enough::Yes
            })
        };
        transact(shared, session, &mut Replies::new(0), sample)?;
        if candidates.behind.is_some() {
            break;
        }
    }
    Ok(candidates.take())
}
