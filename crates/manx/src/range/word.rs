//! The spin lock around a shard: one word, taken for some ten nanoseconds.
//!
//! A thread that finds it taken looks for a while, then yields, then sleeps in growing steps,
//! because the holder may have lost its CPU (the policy of [`crate::wait::Adaptive`]). There is no
//! queue: the work under a word is a look at a few cache lines, and the wait queue decides which
//! waiter goes next.
//!
//! Invariant 1: between its exchange from 0 to 1 and its store of 0, the word belongs to the thread
//! that made the exchange.
//!
//! # Memory orderings
//! The exchange acquires and the store releases, so the holder of the word sees what was done under
//! it before.

use crate::wait::{Adaptive, Policy};
use core::time::Duration;
use platform::atomic::{AtomicU32, Ordering};
use platform::cpu;

/// How a word is waited for: a preempted holder needs the CPU more than we do.
const POLICY: Adaptive = Adaptive::DEFAULT.spins(200).yields(100).step(Duration::from_micros(50));

/// The number of pauses of a thread that found the word taken, before it looks again: about half a
/// microsecond.
const AWAY: u32 = 120;

/// A free word is 0.
#[derive(Debug)]
pub(super) struct Word(AtomicU32);

impl Word {
    platform::const_fn! {
        pub(super) const fn new() -> Word {
            Word(AtomicU32::new(0))
        }
    }

    /// Takes the word, if it is free. A thread that fails has not stored anything: loom cannot tell
    /// that the holder's store of 0 comes after an exchange of 1 for 1.
    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Waits for the word, which was found taken.
    #[cold]
    pub(super) fn lock_contended(&self) {
        for _ in 0..platform::spin_bound(AWAY) {
            cpu::pause();
        }
        // Relaxed: the exchange decides.
        POLICY.until(|| self.0.load(Ordering::Relaxed) == 0 && self.try_lock());
    }

    /// # Safety
    /// The caller holds the word.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}
