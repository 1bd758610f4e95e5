//! The mutable lock: a few waiters spin, the others sleep, and how many spin tunes itself.
//!
//! A spin lock passes fast and burns CPUs; a sleep lock burns nothing and passes late. Marotta,
//! Tiriticco, Di Sanzo, Pellegrini, Ciciani and Quaglia ("Mutable locks: Combining the best of spin
//! and sleep locks", 2020) keep a window of spinners that take the lock, fed by sleepers that are
//! woken ahead of time. The window and everything about waiting is the policy [`Mutable`], whose
//! module has the rules and where they differ from the paper's; the lock itself is a flag as in
//! [`super::Ttas`].
//!
//! | `taken` | meaning |
//! | --- | --- |
//! | false | free |
//! | true | held |
//!
//! Invariants:
//! 1. Between its change from false to true and the next store of false, `taken` belongs to the
//!    thread that changed it.
//! 2. Each unlock signals after it has stored false, so a waiter that does not see the store is
//!    told to look again, or another waiter is, which will take the lock and signal in turn.
//!
//! # Memory orderings
//! The exchange acquires and the store releases: a thread that takes the lock sees what the last
//! holder wrote. The store against a waiter's last look before it parks is the policy's business:
//! its signal begins with a sequentially consistent fence.

use manx::lock::RawLock;
use manx::wait::{Mutable, Policy};
use platform::atomic::{AtomicBool, Ordering};

/// The mutable lock of Marotta and others. Unfair; spins and sleeps. See the module's text.
#[derive(Debug)]
pub struct MutableLock {
    taken: AtomicBool,
    freed: Mutable,
}

impl MutableLock {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            MutableLock { taken: AtomicBool::new(false), freed: Mutable::new() }
        }
    }

    /// How its waiters wait: how many spin, may spin, and are parked.
    pub const fn waiting(&self) -> &Mutable {
        &self.freed
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. A failure learns nothing.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        self.freed.until(|| !self.taken.load(Ordering::Relaxed) && self.take());
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. Where the lock is matters to
// its waiters only.
unsafe impl RawLock for MutableLock {
    type Held = ();
    const NAME: &'static str = "mutable";
    platform::initial! { MutableLock::new() }

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        (!self.taken.load(Ordering::Relaxed) && self.take()).then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        self.taken.store(false, Ordering::Release);
        // Invariant 2.
        self.freed.signal_one();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}
