//! The spin lock around a shard: one word, taken for some ten nanoseconds.
//!
//! A thread that finds it taken looks for a while, then yields, then sleeps in growing steps,
//! because the holder may have lost its CPU (the policy of [`crate::wait::Adaptive`]). There is no
//! queue: the work under a word is a look at a few cache lines, and the wait queue decides which
//! waiter goes next.
//!
//! On a slow core, or far from the others, a thread may find the word taken each time, for
//! milliseconds: its exchange always comes too late. So a thread that has looked `LOOKS` times in
//! vain *asks*, for as long as it runs and looks again. While a thread asks, a newcomer that has
//! just taken the word gives it back, and waits until no thread asks, or until it has looked that
//! often itself. A thread does not ask while it sleeps: the others would wait for it.
//!
//! Invariants:
//! 1. Between its exchange of `held` from 0 to 1 and its store of 0, the word belongs to the thread
//!    that made the exchange.
//! 2. `asking` is the number of threads that have looked `LOOKS` times in vain and look now. It is
//!    a hint for the others: it orders nothing, and is read and changed relaxed.
//!
//! # Memory orderings
//! The exchange acquires and the store releases, so the holder of the word sees what was done under
//! it before.

use crate::wait::{Adaptive, Policy};
use core::time::Duration;
use platform::atomic::{AtomicU16, Ordering};
use platform::cpu;

/// What a thread does between two times of asking: a preempted holder needs the CPU more than we
/// do.
const POLICY: Adaptive = Adaptive::DEFAULT.spins(0).yields(100).step(Duration::from_micros(50));

/// The number of pauses of a thread that found the word taken, before it looks again: about half a
/// microsecond.
const AWAY: u32 = 120;
/// The number of looks in vain before a thread asks.
const LOOKS: u32 = 100;
/// The number of looks of a thread that asks, before it lets others run.
const LOOKS_ASKING: u32 = 100;

/// A word; free if `held` is 0.
#[derive(Debug)]
pub(super) struct Word {
    held: AtomicU16,
    asking: AtomicU16,
}

impl Word {
    platform::const_fn! {
        pub(super) const fn new() -> Word {
            Word { held: AtomicU16::new(0), asking: AtomicU16::new(0) }
        }
    }

    /// Takes the word, if it is free and no thread asks.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        let taken = self.take();
        if taken && self.asking.load(Ordering::Relaxed) != 0 {
            self.held.store(0, Ordering::Release);
            return false;
        }
        taken
    }

    /// Takes the word, if it is free. A thread that fails has not stored anything: loom cannot tell
    /// that the holder's store of 0 comes after an exchange of 1 for 1.
    #[inline(always)]
    fn take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits for the word, which was found taken, or asked for.
    #[cold]
    pub(super) fn lock_contended(&self) {
        for _ in 0..platform::spin_bound(AWAY) {
            cpu::pause();
        }
        // Relaxed: the exchange decides.
        let is_free = || self.held.load(Ordering::Relaxed) == 0;
        let none_asks = || self.asking.load(Ordering::Relaxed) == 0;
        if !spin(platform::spin_bound(LOOKS), || none_asks() && is_free() && self.take()) {
            POLICY.until(|| {
                self.asking.fetch_add(1, Ordering::Relaxed);
                let taken = spin(platform::spin_bound(LOOKS_ASKING), || is_free() && self.take());
                self.asking.fetch_sub(1, Ordering::Relaxed);
                taken
            });
        }
    }

    /// # Safety
    /// The caller holds the word.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        self.held.store(0, Ordering::Release);
    }
}

/// Looks once, and so often again, with a pause between, until there is something.
fn spin(looks: u32, mut look: impl FnMut() -> bool) -> bool {
    for _ in 0..looks {
        if look() {
            return true;
        }
        cpu::pause();
    }
    look()
}
