//! The ticket lock: draw a number, and wait until it is called.
//!
//! The simplest lock that passes in the order of arrival (Reed and Kanodia, "Synchronization with
//! eventcounts and sequencers", 1979; as a spin lock in Mellor-Crummey and Scott, "Algorithms for
//! scalable synchronization on shared-memory multiprocessors", 1991). All waiters read one word, so
//! each hand-over costs each of them a cache miss.
//!
//! | word | meaning | changed by |
//! | --- | --- | --- |
//! | `next` | the number that the next to arrive draws | a thread that arrives: +1 |
//! | `called` | the number whose turn it is | the holder, when it unlocks: +1 |
//!
//! The lock is free while the two are equal; both wrap around.
//!
//! Strict order has a price that this lock pays in full: the lock goes to the next in line even if
//! that thread has no CPU. Then all waiters spin until the kernel takes a spinner's CPU away. With
//! more threads than CPUs it loses nearly all of its throughput. That is what it is, and why other
//! locks exist.
//!
//! Invariants:
//! 1. Each number is drawn once in 2³² arrivals; with fewer threads than that, no two waiters have
//!    the same.
//! 2. Only the thread whose number is `called` holds the lock, and only it changes `called`.
//!
//! # Memory orderings
//! `called` is stored with release and read with acquire: the waiter that is called sees what the
//! last holder wrote. Drawing needs no order. An attempt that succeeds has read the `called` of the
//! last holder that way.

use manx::lock::{Fifo, RawLock};
use manx::wait::{Policy, Spin};
use platform::atomic::{AtomicU32, Ordering};

/// The ticket lock. First in, first out; spins. See the module's text.
#[derive(Debug)]
pub struct Ticket {
    next: AtomicU32,
    called: AtomicU32,
}

impl Ticket {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Ticket { next: AtomicU32::new(0), called: AtomicU32::new(0) }
        }
    }

    #[cold]
    fn await_call(&self, number: u32) {
        Spin.until(|| self.called.load(Ordering::Acquire) == number);
    }
}

// SAFETY: by Invariants 1 and 2, and by the orderings in the module's text. The lock has no address
// of its own.
unsafe impl RawLock for Ticket {
    type Held = ();
    const NAME: &'static str = "ticket";
    platform::initial! { Ticket::new() }

    #[inline]
    fn lock(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.called.load(Ordering::Acquire) != number {
            self.await_call(number);
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        let called = self.called.load(Ordering::Acquire);
        let after = called.wrapping_add(1);
        // A thread that draws the number that is called holds the lock at once.
        self.next.compare_exchange(called, after, Ordering::Relaxed, Ordering::Relaxed).is_ok().then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        // Relaxed: by Invariant 2 no other thread changes it.
        let number = self.called.load(Ordering::Relaxed);
        self.called.store(number.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.called.load(Ordering::Relaxed) != self.next.load(Ordering::Relaxed)
    }
}

// SAFETY: numbers are drawn in the order of arrival and called in the order of numbers.
unsafe impl Fifo for Ticket {
    fn last_in_line(&self) -> usize {
        self.next.load(Ordering::Relaxed) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        let lock = Ticket { next: AtomicU32::new(u32::MAX), called: AtomicU32::new(u32::MAX) };
        for _ in 0..3 {
            lock.lock();
            // SAFETY: held by this thread.
            unsafe { lock.unlock(()) };
        }
        assert!(!lock.is_locked());
    }
}
