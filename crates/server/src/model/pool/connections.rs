//! The connections of the pool, by number.
//!
//! Each round of a leader looks up the connections that are ready. The kernel may preempt a thread
//! while it has a lock, and then the other leaders wait with all their clients. So there are
//! [`SHARDS`] locks, each held for one look-up at a time: hardly ever do two threads want the same
//! one.

use super::served::Served;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: u64 = 64;

type Shard = HashMap<u64, Arc<Served>, foldhash::fast::RandomState>;

/// See [the module](self).
pub(super) struct Connections(Box<[Mutex<Shard>]>);

impl Connections {
    pub(super) fn new() -> Connections {
        Connections((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, Shard> {
        self.0[(number % SHARDS) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, served: Arc<Served>) {
        self.shard(served.number).insert(served.number, served);
    }

    /// The one of this number, unless it has ended.
    pub(super) fn get(&self, number: u64) -> Option<Arc<Served>> {
        self.shard(number).get(&number).cloned()
    }

    pub(super) fn remove(&self, number: u64) {
        let removed = self.shard(number).remove(&number);
        // Dropped without the lock.
        drop(removed);
    }
}
