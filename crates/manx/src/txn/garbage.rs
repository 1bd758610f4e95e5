//! Keys with versions that no transaction will need at some later time.
//!
//! A session that commits remembers the keys that it has changed, and cleans some keys that were
//! changed long ago: one more than it has added. So no commit does the work of many, and little is
//! left. Versions that are still needed are looked at again later. Finding out what is needed takes
//! a look at all sessions. So one transaction of many does it, for all sessions.
//!
//! A session leaves its keys to all sessions when it ends, or when it has more of them than it can
//! clean soon because a transaction reads for long. The session that finds out what is needed also
//! cleans some of the keys that were left. So a session that is idle for long keeps few keys.

use super::coordinator::Coordinator;
use super::retired::Retired;
use super::table::{Table, Written};
use super::timestamps::Timestamps;
use super::versions::Version;
use crate::lock::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One transaction in this number finds out what is needed; so does a transaction that has changed
/// at least this number of keys.
const ONE_OF: u64 = 64;
/// It cleans this number of the keys that were left to all, or as many as it has changed, if those
/// are more.
const SOME: usize = 128;
/// The maximum number of keys that a session keeps when it has committed.
const OWN_MAX: usize = 1024;

/// The keys of a store with their versions, and what tells which of these are needed.
pub(super) struct VersionStore {
    pub(super) table: Table,
    pub(super) ids: Arc<Coordinator>,
    pub(super) timestamps: Timestamps,
    horizon: Horizon,
    /// What sessions left to all.
    left: Mutex<Garbage>,
}

/// What no transaction needs, as far as a session has found out. It only grows, so a session that
/// knows less is on the safe side.
#[derive(Debug, Default)]
struct Horizon {
    /// No transaction needs to tell ids below this one apart …
    id: AtomicU64,
    /// … or timestamps that are not above this one.
    timestamp: AtomicU64,
}

impl VersionStore {
    pub(super) fn new(table: Table, ids: Arc<Coordinator>) -> VersionStore {
        let timestamps = Timestamps::default();
        VersionStore { table, ids, timestamps, horizon: Horizon::default(), left: Mutex::default() }
    }

    /// Finds out what no transaction needs.
    #[cold]
    fn advance_horizon(&self) {
        // Release, and Acquire below: a session that cleans by it does so behind all that was
        // looked at.
        self.horizon.id.fetch_max(self.ids.oldest(), Ordering::Release);
        self.horizon.timestamp.fetch_max(self.timestamps.oldest(), Ordering::Release);
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
    pub(super) fn add(&mut self, id: u64, keys: &mut Vec<Written>, store: &VersionStore) {
        let added = keys.len();
        self.keys.extend(keys.drain(..).map(|key| (id, key)));
        if id.is_multiple_of(ONE_OF) || added as u64 >= ONE_OF {
            store.advance_horizon();
            // No session waits here: the session that has the lock cleans it.
            if let Some(mut left) = store.left.try_lock() {
                left.clean(SOME.max(added), store);
            }
        }
        self.clean(added + 1, store);
        if self.keys.len() > OWN_MAX {
            store.left.lock().keys.append(&mut self.keys);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Cleans at most `most` keys.
    fn clean(&mut self, most: usize, store: &VersionStore) {
        let oldest = store.horizon.id.load(Ordering::Acquire);
        let oldest_timestamp = store.horizon.timestamp.load(Ordering::Acquire);
        let guard = &crossbeam_epoch::pin();
        for _ in 0..most.min(self.keys.len()) {
            match self.keys.pop_front() {
                Some((id, key)) if id < oldest => {
                    if !store.table.clean(&key, oldest, oldest_timestamp, &mut self.retired, guard) {
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
    pub(super) fn leave(&mut self, store: &VersionStore) {
        if self.keys.is_empty() && self.retired.is_empty() {
            return;
        }
        let mut left = store.left.lock();
        let added = self.keys.len();
        left.keys.append(&mut self.keys);
        left.retired.absorb(&mut self.retired, &crossbeam_epoch::pin());
        left.clean(added + 1, store);
    }
}
