//! The futex mutex that looks a hundred times before it sleeps: what Rust's standard library has
//! on Linux (`std::sync::Mutex`).
//!
//! It is here for machines on which the standard library cannot run: the simulated ones. The words
//! and their invariants are those of [`manx::lock::FutexMutex`]. The difference: a waiter first
//! looks `SPINS` times while the lock is held and no thread sleeps, and again after each wake-up.
//!
//! | `word` | meaning |
//! | --- | --- |
//! | 0 | free |
//! | 1 | held |
//! | 2 | held, and perhaps a thread sleeps |
//!
//! # Memory orderings
//! As there: each change of `word` is a read-modify-write, with acquire where it may take the lock,
//! with release where it gives it back. A look is relaxed: nothing is done because of it but a try.

use manx::lock::RawLock;
use platform::atomic::{AtomicU32, Ordering};
use platform::{cpu, futex};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// How often a waiter looks, with a PAUSE between two looks.
const SPINS: u32 = 100;

/// The standard library's algorithm. See the module's text.
#[derive(Debug)]
pub struct SpinFutex {
    word: AtomicU32,
}

impl SpinFutex {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            SpinFutex { word: AtomicU32::new(FREE) }
        }
    }

    fn take(&self) -> bool {
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Looks until the word is not [`HELD`], and not for too long. Returns what it saw last.
    fn spin(&self) -> u32 {
        for _ in 0..platform::spin_bound(SPINS) {
            let seen = self.word.load(Ordering::Relaxed);
            if seen != HELD {
                return seen;
            }
            cpu::pause();
        }
        self.word.load(Ordering::Relaxed)
    }

    #[cold]
    fn lock_contended(&self) {
        let mut seen = self.spin();
        if seen == FREE && self.take() {
            return;
        }
        loop {
            if seen != CONTENDED && self.word.swap(CONTENDED, Ordering::Acquire) == FREE {
                return;
            }
            futex::wait(&self.word, CONTENDED);
            seen = self.spin();
        }
    }
}

// SAFETY: `word` is changed from 0 by one thread, which holds the lock from then on until its
// exchange for 0; by the orderings in the module's text.
unsafe impl RawLock for SpinFutex {
    type Held = ();
    const NAME: &'static str = "spin-futex";
    platform::initial! { SpinFutex::new() }

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
        let place = &raw const self.word;
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            // The lock may be gone; the kernel gets its address, as a key.
            futex::wake(place, 1);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}
