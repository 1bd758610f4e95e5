//! A number that a lock guards, in a cell that loom watches.

#![allow(dead_code, reason = "each test uses a part of it")]

use loom::sync::Arc;
use manx_loom::lock::RawLock;
use platform::cell::UnsafeCell;

/// A number that a lock guards.
pub struct Guarded<L> {
    pub lock: L,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used by holders of the lock only; loom reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock + 'static> Guarded<L> {
    pub fn new() -> Arc<Self> {
        Guarded::over(L::new())
    }

    pub fn over(lock: L) -> Arc<Self> {
        Arc::new(Guarded { lock, number: UnsafeCell::new(0) })
    }

    pub fn add(&self) {
        // SAFETY: called by holders only.
        self.number.with_mut(|number| unsafe { *number += 1 });
    }

    pub fn lock_and_add(&self) {
        let held = self.lock.lock();
        self.add();
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }

    pub fn try_and_add(&self) -> bool {
        let Some(held) = self.lock.try_lock() else { return false };
        self.add();
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
        true
    }

    /// Checks that no thread holds the lock, and that `times` holders did.
    pub fn assert_done(&self, times: u32) {
        assert!(!self.lock.is_locked());
        let held = self.lock.try_lock().expect("a free lock is taken without waiting");
        // SAFETY: held.
        assert_eq!(self.number.with(|number| unsafe { *number }), times);
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}
