//! Keys with versions that no transaction will need at some later time.
//!
//! A session that commits remembers the keys that it has changed, and cleans some that were changed
//! long ago: one more than it has added. So no commit does the work of many, and little is left.
//! What is still needed is looked at again later. To know what is needed means to look at all
//! sessions, so that is done once for many transactions, by one of them for all sessions.
//!
//! A session leaves its keys to all when it ends, or when it has more than it can expect to clean
//! soon since a transaction reads for long. The session that finds out what is needed cleans some
//! of those, too. So also a session that will be idle for long keeps few.

use super::retired::Retired;
use super::versions::Version;
use super::store::Inner;
use super::table::Written;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// One of this number of transactions looks what is needed; so does a transaction that has changed
/// at least this number of keys.
const ONE_OF: u64 = 64;
/// It cleans this number of the keys that were left to all, or as many as it has changed, if those
/// are more.
const SOME: usize = 128;
/// The maximum number of keys that a session keeps when it has committed.
const OWN_MAX: usize = 1024;

/// What no transaction needs, as far as a session has found out. It only grows, so a session that
/// knows less is on the safe side.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// No transaction needs to tell ids below this one apart …
    id: AtomicU64,
    /// … or timestamps that are not above this one.
    timestamp: AtomicU64,
}

impl Horizon {
    #[cold]
    fn advance(&self, inner: &Inner) {
        // Release, and Acquire below: a session that cleans by it does so behind all that was
        // looked at.
        self.id.fetch_max(inner.ids.oldest(), Ordering::Release);
        self.timestamp.fetch_max(inner.timestamps.oldest(), Ordering::Release);
    }
}

/// The keys that a session has changed, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    keys: VecDeque<(u64, Written)>,
    /// What was cut off, and is to be freed.
    pub(super) retired: Retired<Version>,
}

impl Garbage {
    /// A transaction of this id has changed the keys.
    pub(super) fn add(&mut self, id: u64, keys: &mut Vec<Written>, inner: &Inner) {
        let added = keys.len();
        self.keys.extend(keys.drain(..).map(|key| (id, key)));
        if id.is_multiple_of(ONE_OF) || added as u64 >= ONE_OF {
            inner.horizon.advance(inner);
            // No session waits here: the session that has the lock cleans it.
            if let Some(mut left) = inner.left.try_lock() {
                left.clean(SOME.max(added), inner);
            }
        }
        self.clean(added + 1, inner);
        if self.keys.len() > OWN_MAX {
            inner.left.lock().keys.append(&mut self.keys);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Cleans at most `most` keys.
    fn clean(&mut self, most: usize, inner: &Inner) {
        let oldest = inner.horizon.id.load(Ordering::Acquire);
        let oldest_timestamp = inner.horizon.timestamp.load(Ordering::Acquire);
        let guard = &crossbeam_epoch::pin();
        for _ in 0..most.min(self.keys.len()) {
            match self.keys.pop_front() {
                Some((id, key)) if id < oldest => {
                    if !inner.table.clean(&key, oldest, oldest_timestamp, &mut self.retired, guard) {
                        // A transaction may read at a timestamp.
                        self.keys.push_back((id, key));
                    }
                }
                Some(young) => {
                    self.keys.push_front(young);
                    break;
                }
                None => break,
            }
        }
        self.retired.free_some();
    }

    /// Its session ends: what is left is cleaned by others.
    pub(super) fn leave(&mut self, inner: &Inner) {
        if self.keys.is_empty() && self.retired.is_empty() {
            return;
        }
        let mut left = inner.left.lock();
        let added = self.keys.len();
        left.keys.append(&mut self.keys);
        left.retired.absorb(&mut self.retired, &crossbeam_epoch::pin());
        left.clean(added + 1, inner);
    }
}
