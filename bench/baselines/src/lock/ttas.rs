//! The test-and-test-and-set lock: look until the lock is free, then try to take it.
//!
//! Waiters read, so the lock's cache line stays shared among them and the holder's own data stay
//! where they are; only when the lock becomes free they all try at once (Rudolph and Segall,
//! "Dynamic decentralized cache schemes for MIMD parallel processors", 1984; measured in Anderson,
//! "The performance of spin lock alternatives for shared-memory multiprocessors", 1990). As unfair
//! as [`super::Tas`].
//!
//! | `taken` | meaning |
//! | --- | --- |
//! | false | free |
//! | true | held |
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

/// The test-and-test-and-set lock (TTAS). Unfair; spins. See the module's text.
#[derive(Debug)]
pub struct Ttas {
    taken: AtomicBool,
}

impl Ttas {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Ttas { taken: AtomicBool::new(false) }
        }
    }

    #[inline]
    fn take(&self) -> bool {
        // Acquire pairs with the release in `unlock`. A failure learns nothing.
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_contended(&self) {
        Spin.until(|| !self.taken.load(Ordering::Relaxed) && self.take());
    }
}

// SAFETY: by Invariant 1, and by the orderings in the module's text. The lock has no address of its
// own.
unsafe impl RawLock for Ttas {
    type Held = ();
    const NAME: &'static str = "ttas";
    platform::initial! { Ttas::new() }

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
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.taken.load(Ordering::Relaxed)
    }
}
