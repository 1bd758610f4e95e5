//! A value under a spin lock, as the range locks that keep a search structure have one.
//!
//! Song's skip list and the kernel's interval tree hold a spin lock for the few hundred
//! instructions of a search and a change. In a kernel the holder is not preempted. Here it is; so a
//! waiter spins for a moment only, then yields, then sleeps ([`Adaptive`]), and survives more
//! threads than CPUs. Everything else is as in a test-and-test-and-set lock. If the lock `SPINS`, a
//! waiter spins for as long as it takes, as in the kernel.
//!
//! Invariant 1: between its change from false to true and the next store of false, the value
//! belongs to the thread that changed `taken`.
//!
//! # Memory orderings
//! Taking acquires, giving back releases; looks before are hints.

use manx::wait::{Adaptive, Policy};
use platform::atomic::{AtomicBool, Ordering};
use platform::cell::UnsafeCell;

/// A value that one thread at a time works with. See the module's text.
#[derive(Debug)]
pub(super) struct Spinlock<T, const SPINS: bool = false> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: by Invariant 1 the value is used by one thread at a time; which one may change, hence
// `Send`.
unsafe impl<T: Send, const SPINS: bool> Sync for Spinlock<T, SPINS> {}

impl<T, const SPINS: bool> Spinlock<T, SPINS> {
    pub(super) fn new(value: T) -> Self {
        Spinlock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Lets `work` change the value, alone. It must not panic, or no thread gets the value again.
    #[inline]
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        if !self.take() {
            self.take_contended();
        }
        // SAFETY: by Invariant 1 this thread is the only one here.
        let result = self.value.with_mut(|value| work(unsafe { &mut *value }));
        self.taken.store(false, Ordering::Release);
        result
    }

    #[inline]
    fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn take_contended(&self) {
        let take = || !self.taken.load(Ordering::Relaxed) && self.take();
        if !SPINS {
            Adaptive::DEFAULT.until(take);
            return;
        }
        while !take() {
            platform::cpu::pause();
        }
    }
}
