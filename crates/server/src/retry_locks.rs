//! Locks that serialize retries: a transaction that has conflicted on a key tries again only while
//! it holds the key's retry lock.

use manx::lock::{Mutex, MutexGuard};
use manx::pool::block_in_place;
use std::hash::{BuildHasher as _, RandomState};

/// The number of locks. Keys share them by a hash.
const LOCKS: usize = 256;

/// The retry locks of all keys.
pub(crate) struct RetryLocks {
    locks: Box<[Mutex<()>]>,
    hash: RandomState,
}

impl RetryLocks {
    pub(crate) fn new() -> RetryLocks {
        RetryLocks { locks: (0..LOCKS).map(|_| Mutex::new(())).collect(), hash: RandomState::new() }
    }

    /// Returns the index of the key's lock.
    pub(crate) fn of(&self, key: &[u8]) -> usize {
        self.hash.hash_one(key) as usize % LOCKS
    }

    pub(crate) fn lock(&self, index: usize) -> MutexGuard<'_, ()> {
        let lock = &self.locks[index];
        lock.try_lock().unwrap_or_else(|| block_in_place(|| lock.lock()))
    }
}
