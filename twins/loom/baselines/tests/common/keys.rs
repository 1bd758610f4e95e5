//! Keys that a range lock guards, each in a cell that loom watches.

#![allow(dead_code, reason = "each test uses a part of it")]

use Access::{Exclusive, Shared};
use loom::sync::Arc;
use manx::range::{Access, RawRangeLock, Span};
use platform::cell::UnsafeCell;

pub const KEYS: u64 = 4;

/// A lock, and the keys that nothing but the lock protects.
pub struct Guarded<L> {
    pub lock: L,
    keys: [UnsafeCell<u32>; KEYS as usize],
}

// SAFETY: keys are used by their holders; loom reports it if that is not enough.
unsafe impl<L: RawRangeLock> Sync for Guarded<L> {}

/// From `first` up to, and without, `end`.
pub type Keys = (u64, u64);

pub fn span((first, end): Keys) -> Span<u64> {
    Span::new(first, end).unwrap()
}

impl<L: RawRangeLock + 'static> Guarded<L> {
    pub fn new() -> Arc<Self> {
        Guarded::of(L::with_space(KEYS))
    }

    pub fn of(lock: L) -> Arc<Self> {
        Arc::new(Guarded { lock, keys: [0, 1, 2, 3].map(|_| UnsafeCell::new(0)) })
    }

    /// Works with keys that are held, and gives them back.
    pub fn work(&self, keys: Keys, access: Access, held: L::Held) {
        for key in &self.keys[keys.0 as usize..keys.1 as usize] {
            match access {
                // SAFETY: held alone.
                Exclusive => key.with_mut(|number| unsafe { *number += 1 }),
                // SAFETY: held by readers.
                Shared => assert!(key.with(|number| unsafe { *number }) < 100),
            }
        }
        self.unlock(held);
    }

    /// Gives back what this lock returned.
    pub fn unlock(&self, held: L::Held) {
        // SAFETY: as the lock returned it.
        unsafe { self.lock.unlock(held) };
    }

    pub fn lock(&self, keys: Keys, access: Access) {
        let held = self.lock.lock(&span(keys), access);
        self.work(keys, access, held);
    }

    /// Whether it got them.
    pub fn try_lock(&self, keys: Keys, access: Access) -> bool {
        let Some(held) = self.lock.try_lock(&span(keys), access) else { return false };
        self.work(keys, access, held);
        true
    }

    /// Checks that no thread holds anything, and that each key was written `times` times.
    pub fn assert_done(&self, times: [u32; KEYS as usize]) {
        let held =
            self.lock.try_lock(&Span::all(), Exclusive).expect("what is free is taken without waiting");
        // SAFETY: held alone.
        let found = self.keys.each_ref().map(|key| key.with(|number| unsafe { *number }));
        self.unlock(held);
        assert_eq!(found, times);
    }
}
