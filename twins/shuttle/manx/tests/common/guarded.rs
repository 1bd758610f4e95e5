//! A lock whose holders write down their numbers, in a cell that reports two that do so at once.

#![allow(dead_code, reason = "each test uses a part of it")]

use manx_shuttle::lock::RawLock;
use platform::cell::UnsafeCell;
use shuttle::sync::Arc;

/// A lock, and the numbers of its holders.
pub struct Guarded<L> {
    pub lock: L,
    order: UnsafeCell<Vec<u32>>,
}

// SAFETY: the order is used by holders of the lock only; the cell reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock> Guarded<L> {
    pub fn new() -> Arc<Self> {
        Guarded::over(L::new())
    }

    pub fn over(lock: L) -> Arc<Self> {
        Arc::new(Guarded { lock, order: UnsafeCell::new(Vec::new()) })
    }

    pub fn write_down(&self, number: u32) {
        // SAFETY: called by holders only.
        self.order.with_mut(|order| unsafe { (*order).push(number) });
    }

    pub fn lock(&self, number: u32) {
        let held = self.lock.lock();
        self.write_down(number);
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }

    pub fn try_lock(&self, number: u32) -> bool {
        let Some(held) = self.lock.try_lock() else { return false };
        self.write_down(number);
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
        true
    }

    /// Returns the holders' numbers in their order, once the lock is free for good.
    pub fn order(&self) -> Vec<u32> {
        assert!(!self.lock.is_locked());
        assert!(self.try_lock(u32::MAX), "a free lock is taken without waiting");
        // SAFETY: the others have ended.
        let mut order = self.order.with_mut(|order| unsafe { std::mem::take(&mut *order) });
        order.pop();
        order
    }
}
