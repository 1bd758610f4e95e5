//! A lock for what the library keeps for itself: its memory, and its table of sites.
//!
//! Such a lock is held for microseconds, off every hot path, by code that must not go through the
//! program's own `pthread_mutex_lock`. A flag and an adaptive wait are enough, and leave nothing behind
//! in a forked child but the flag, which `fork` finds free because the forking thread holds it
//! meanwhile (see [`Latch::hold`] and [`Latch::release`]).
//!
//! Invariant 1: the value is touched only by the thread that turned `taken` from false to true, and by
//! that one only until it stores false again. The swap acquires what the last store released.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use manx::wait::Adaptive;

/// A value that one thread at a time may use.
pub struct Latch<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: by Invariant 1 the value moves between threads but is never shared.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    /// A free latch.
    pub const fn new(value: T) -> Self {
        Latch { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the latch and takes it.
    pub fn lock(&self) -> Held<'_, T> {
        self.hold();
        Held { latch: self }
    }

    /// Takes the latch until [`Latch::release`], which may happen in a forked child as well.
    pub fn hold(&self) {
        let mut backoff = Adaptive::DEFAULT.start();
        while self.taken.swap(true, Ordering::Acquire) {
            backoff.wait();
        }
    }

    /// Gives back a latch taken by [`Latch::hold`].
    pub fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// The right to use the value; ends when dropped.
pub struct Held<'a, T> {
    latch: &'a Latch<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by Invariant 1 nobody else touches the value.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by Invariant 1 nobody else touches the value.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.latch.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        static COUNT: Latch<u64> = Latch::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 40_000);
    }
}
