//! A lock for what the library keeps for itself: its memory, and its table of sites.
//!
//! Most are held for microseconds; the guard's is held for a whole search, tens of milliseconds.
//! None is on a hot path. The code that holds them must not go through the program's own
//! `pthread_mutex_lock`. A word and an adaptive wait are enough.
//!
//! `fork` finds the latches free, because the forking thread holds them meanwhile (see
//! [`Latch::hold`] and [`Latch::release`]). `_Fork` and a bare `clone` run no handlers: there a
//! latch may be held by a thread that the child does not have, and its value be half changed. So
//! the word names the [generation](platform::fork) of the process whose thread holds the latch, and
//! a thread that finds one of another generation takes the latch over, torn.
//!
//! The user of a torn latch decides: it [replaces](Held::replace_torn) the value, or leaves it
//! alone.
//!
//! | `word` | meaning |
//! | --- | --- |
//! | `GENERATION` bits are 0 | free |
//! | `GENERATION` bits are not 0 | held by a thread of the process of this generation |
//! | `TORN` | was taken over, and the value was not mended since |
//!
//! Invariants:
//! 1. The value is touched only by the thread that wrote its generation into `word`, and by that
//!    one only until it takes it out again. The step that takes the latch acquires what the last
//!    release, or the fork, left.
//! 2. A thread of another generation is not in this process, so its latch has no holder.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use manx::wait::Adaptive;
use platform::{clock, fork};

/// In `word`.
const TORN: u32 = 1 << 31;
/// In `word`: all other bits.
const GENERATION: u32 = TORN - 1;

/// A value that one thread at a time may use.
pub struct Latch<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: by Invariant 1 the value moves between threads but is never shared.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    /// A free latch.
    pub const fn new(value: T) -> Self {
        Latch { word: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for the latch and takes it.
    pub fn lock(&self) -> Held<'_, T> {
        self.hold();
        Held { latch: self }
    }

    /// As [`Latch::lock`], but gives up after about `timeout_ns`: for a caller that the holder may
    /// be waiting for.
    pub fn lock_within(&self, timeout_ns: u64) -> Option<Held<'_, T>> {
        self.hold_within(timeout_ns).then_some(Held { latch: self })
    }

    /// Takes the latch until [`Latch::release`], which may happen in a forked child as well.
    pub fn hold(&self) {
        let mut backoff = Adaptive::DEFAULT.start();
        while !self.try_hold() {
            backoff.wait();
        }
    }

    /// As [`Latch::hold`], but gives up after about `timeout_ns`; false then.
    pub fn hold_within(&self, timeout_ns: u64) -> bool {
        if self.try_hold() {
            return true;
        }
        let end_ns = clock::now_ns().saturating_add(timeout_ns);
        let mut backoff = Adaptive::DEFAULT.start();
        while clock::now_ns() < end_ns {
            backoff.wait();
            if self.try_hold() {
                return true;
            }
        }
        false
    }

    /// Takes the latch if no thread of this process holds it.
    fn try_hold(&self) -> bool {
        let own = fork::generation() & GENERATION;
        loop {
            let word = self.word.load(Ordering::Relaxed);
            let taken = match word & GENERATION {
                0 => word | own,
                holder if holder == own => return false,
                // By Invariant 2.
                _ => own | TORN,
            };
            if self.word.compare_exchange_weak(word, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Gives back a latch taken by [`Latch::hold`].
    pub fn release(&self) {
        self.word.fetch_and(TORN, Ordering::Release);
    }
}

/// The right to use the value; ends when dropped.
pub struct Held<'a, T> {
    latch: &'a Latch<T>,
}

impl<T> Held<'_, T> {
    /// Whether the value may be half changed: see the module's text.
    pub fn is_torn(&self) -> bool {
        // Relaxed: only the holder changes that bit.
        self.latch.word.load(Ordering::Relaxed) & TORN != 0
    }

    /// Writes a whole value over a torn one, which is not dropped.
    pub fn replace_torn(&mut self, value: T) {
        // SAFETY: by Invariant 1.
        unsafe { self.latch.value.get().write(value) };
        self.latch.word.fetch_and(!TORN, Ordering::Relaxed);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by Invariant 1 no other thread touches the value.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by Invariant 1 no other thread touches the value.
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

    #[test]
    fn a_latch_of_another_process_is_taken_over_and_torn_until_it_is_mended() {
        static VALUE: Latch<u64> = Latch::new(7);
        VALUE.hold();
        // As a child finds it.
        VALUE.word.store(fork::generation() + 1, Ordering::Relaxed);
        assert!(VALUE.lock().is_torn());
        assert!(VALUE.lock().is_torn(), "and stays so");
        VALUE.lock().replace_torn(8);
        assert!(!VALUE.lock().is_torn() && *VALUE.lock() == 8);
        VALUE.hold();
        VALUE.release();
        assert!(!VALUE.lock().is_torn(), "a fork that the holder knows of tears nothing");
    }

    #[test]
    fn a_caller_gives_up_a_latch_that_stays_taken() {
        static VALUE: Latch<u64> = Latch::new(7);
        let held = VALUE.lock();
        assert!(VALUE.lock_within(1_000_000).is_none());
        drop(held);
        assert_eq!(VALUE.lock_within(0).as_deref(), Some(&7));
        assert_eq!(*VALUE.lock(), 7, "what was given up is not held");
    }
}
