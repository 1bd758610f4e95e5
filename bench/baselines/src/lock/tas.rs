//! The test-and-set lock: try to take the lock, again and again; and the test-and-test-and-set
//! lock: look until the lock is free, then try to take it.
//!
//! The oldest spin lock, and with no contention the cheapest. Every attempt asks for the lock's
//! cache line for itself alone, so waiters slow the holder down; and the thread nearest to the line
//! gets it, so a far or slow core may starve. On asymmetric cores that favours one class, by
//! accident (Liu and others, "Asymmetry-aware scalable locking", 2022, section 2). It is here as
//! the base line for unfair locks.
//!
//! Where waiters look first, they read, so the lock's cache line stays shared among them and the
//! holder's own data stay where they are; only when the lock becomes free they all try at once
//! (Rudolph and Segall, "Dynamic decentralized cache schemes for MIMD parallel processors", 1984;
//! measured in Anderson, "The performance of spin lock alternatives for shared-memory
//! multiprocessors", 1990). That is as unfair.
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
//! holder wrote. The looks before it are relaxed, because nothing follows from them but an attempt.

use manx::lock::RawLock;
use manx::wait::{Policy, Spin};
use platform::atomic::{AtomicBool, Ordering};

/// The test-and-set lock (TAS). Unfair; spins. See the module's text.
pub type Tas = TestAndSet<false>;

/// The test-and-test-and-set lock (TTAS). Unfair; spins. See the module's text.
pub type Ttas = TestAndSet<true>;

/// A lock of one flag, whose waiters look at it before each attempt or do not.
#[derive(Debug)]
pub struct TestAndSet<const LOOKS: bool> {
    taken: AtomicBool,
}

impl<const LOOKS: bool> TestAndSet<LOOKS> {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            TestAndSet { taken: AtomicBool::new(false) }
        }
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. A failure learns nothing.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn look_and_take(&self) -> bool {
        !(LOOKS && self.taken.load(Ordering::Relaxed)) && self.take()
    }

    #[cold]
    fn lock_contended(&self) {
        Spin.until(|| self.look_and_take());
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. The lock has no address of its
// own.
unsafe impl<const LOOKS: bool> RawLock for TestAndSet<LOOKS> {
    type Held = ();
    const NAME: &'static str = if LOOKS { "ttas" } else { "tas" };
    platform::initial! { TestAndSet::new() }

    #[inline]
    fn lock(&self) {
        if !self.take() {
            self.lock_contended();
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.look_and_take().then_some(())
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
