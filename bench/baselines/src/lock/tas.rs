//! The test-and-set lock: try to take the lock, again and again.
//!
//! The oldest spin lock, and with no contention the cheapest. Every attempt asks for the lock's
//! cache line for itself alone, so waiters slow the holder down; and the thread nearest to the line
//! gets it, so a far or slow core may starve. On asymmetric cores that favours one class, by
//! accident (Liu and others, "Asymmetry-aware scalable locking", 2022, section 2). It is here as
//! the base line for unfair locks.
//!
//! | `taken` | meaning |
//! | --- | --- |
//! | false | free |
//! | true | held |
//!
//! The test-and-set is a compare-and-exchange. On x86-64 a failing one takes the line just as an
//! exchange does, so this is the lock of the literature.
//!
//! Invariant 1: between its change from false to true and the next store of false, `taken` belongs
//! to the thread that changed it.
//!
//! # Memory orderings
//! The exchange acquires and the store releases: a thread that takes the lock sees what the last
//! holder wrote.

use manx::lock::RawLock;
use manx::wait::{Policy, Spin};
use platform::atomic::{AtomicBool, Ordering};

/// The test-and-set lock (TAS). Unfair; spins. See the module's text.
#[derive(Debug)]
pub struct Tas {
    taken: AtomicBool,
}

impl Tas {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Tas { taken: AtomicBool::new(false) }
        }
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. A failure learns nothing.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        Spin.until(|| self.take());
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. The lock has no address of its
// own.
unsafe impl RawLock for Tas {
    type Held = ();
    const NAME: &'static str = "tas";
    platform::initial! { Tas::new() }

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.take().then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        self.taken.store(false, Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}
