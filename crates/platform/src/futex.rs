//! Waiting in the kernel for a word to change.
//!
//! [`wait`] goes to sleep only if the word still has the value that the caller saw, and the kernel
//! compares and falls asleep in one step as far as [`wake`] can tell: whoever changes the word
//! first and then wakes, misses nobody. All futexes here are private to the process.
//!
//! Those who wait at one word can be told apart by *sets*: [`wait_set`] waits as a member of some,
//! and [`wake_set`] wakes members only, in the order in which they came.
//!
//! A wait reads the word, so it takes a reference. A wake-up takes a raw pointer: the kernel uses
//! the address as a key, and neither this module nor the kernel reads what is there. The next
//! holder of a lock may have freed the word by then. At worst the wake-up ends the wait of a thread
//! at a new word with the same address, and all waits may end for no reason.
//!
//! A state of 64 bits is waited for by its upper half ([`upper`], [`wait_upper`]): one step changes
//! the whole, and the kernel compares these 32 bits.
//!
//! Timeouts are rounded up by the thread's timer slack (50 µs unless set), exactly as sleeps are:
//! short waits are better spun.

use crate::atomic::{AtomicU32, AtomicU64};
pub use crate::deadline::{ANY_SET, Clock, Deadline, Outcome};
use crate::syscall::{check, syscall3, syscall4, syscall6};

const WAIT: usize = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
const WAIT_UNTIL: usize = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as usize;
const WAKE_SET: usize = (libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG) as usize;
const WAKE: usize = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
const WAKE_AND_CHANGE: usize = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;

/// Sleeps while `word` is `expected`, until woken.
///
/// ```
/// use platform::{atomic::AtomicU32, futex};
///
/// assert_eq!(futex::wait(&AtomicU32::new(1), 0), futex::Outcome::Changed);
/// ```
pub fn wait(word: &AtomicU32, expected: u32) -> Outcome {
    // SAFETY: the kernel reads the word, which lives as long as its reference; no timeout.
    outcome(unsafe { syscall4(libc::SYS_futex, word.as_ptr().addr(), WAIT, expected as usize, 0) })
}

/// Sleeps while `word` is `expected`, until woken, for at most `timeout_ns`.
///
/// ```
/// use platform::{atomic::AtomicU32, futex};
///
/// assert_eq!(futex::wait_for(&AtomicU32::new(0), 0, 1_000), futex::Outcome::TimedOut);
/// ```
pub fn wait_for(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Outcome {
    let timeout = crate::clock::timespec(timeout_ns);
    let (word, timeout) = (word.as_ptr().addr(), (&raw const timeout).addr());
    // SAFETY: the kernel reads the word and the timeout, which live until the call returns.
    outcome(unsafe { syscall4(libc::SYS_futex, word, WAIT, expected as usize, timeout) })
}

/// Sleeps while `word` is `expected`, until woken, and until [`crate::clock::now_ns`] reaches
/// `deadline_ns`.
///
/// ```
/// use platform::{atomic::AtomicU32, clock, futex};
///
/// let deadline_ns = clock::now_ns() + 1_000;
/// assert_eq!(futex::wait_until(&AtomicU32::new(0), 0, deadline_ns), futex::Outcome::TimedOut);
/// assert!(clock::now_ns() >= deadline_ns);
/// ```
pub fn wait_until(word: &AtomicU32, expected: u32, deadline_ns: u64) -> Outcome {
    let deadline = crate::clock::timespec(deadline_ns);
    let (word, deadline) = (word.as_ptr().addr(), (&raw const deadline).addr());
    let any = libc::FUTEX_BITSET_MATCH_ANY as u32 as usize;
    // SAFETY: the kernel reads the word and the deadline, which live until the call returns.
    outcome(unsafe { syscall6(libc::SYS_futex, word, WAIT_UNTIL, expected as usize, deadline, 0, any) })
}

/// Sleeps as a member of `set` (any bits but none) while `word` is `expected`, until woken, and
/// until the deadline if there is one.
///
/// ```
/// use platform::futex::{self, Clock, Deadline, Outcome};
/// use platform::atomic::AtomicU32;
///
/// let over = Deadline { clock: Clock::Realtime, ns: 0 };
/// assert_eq!(futex::wait_set(&AtomicU32::new(0), 0, 1, Some(over)), Outcome::TimedOut);
/// ```
pub fn wait_set(word: &AtomicU32, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    // SAFETY: the word lives as long as its reference.
    unsafe { wait_at(word, expected, set, deadline) }
}

/// As [`wait_set`], while the upper 32 bits of `word` are `expected`. Wake-ups go to [`upper`] of
/// the word.
///
/// ```
/// use platform::{atomic::AtomicU64, futex};
///
/// let word = AtomicU64::new(1 << 32);
/// assert_eq!(futex::wait_upper(&word, 0, futex::ANY_SET, None), futex::Outcome::Changed);
/// ```
pub fn wait_upper(word: &AtomicU64, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    // SAFETY: the half lives as long as the reference to the whole.
    unsafe { wait_at(upper(word), expected, set, deadline) }
}

/// Where the upper half of a word of 64 bits is: what [`wait_upper`] waits at. Computed from the
/// address; nothing is read.
///
/// ```
/// use platform::{atomic::AtomicU64, futex};
///
/// assert_eq!(futex::wake_set(futex::upper(&AtomicU64::new(0)), 1, futex::ANY_SET), 0);
/// ```
pub const fn upper(word: *const AtomicU64) -> *const AtomicU32 {
    word.cast::<AtomicU32>().wrapping_add(if cfg!(target_endian = "little") { 1 } else { 0 })
}

/// # Safety
/// The word lives until the call returns.
unsafe fn wait_at(word: *const AtomicU32, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    let time = deadline.map(|deadline| crate::clock::timespec(deadline.ns));
    let place = time.as_ref().map_or(0, |time| core::ptr::from_ref(time).addr());
    let realtime = deadline.is_some_and(|deadline| deadline.clock == Clock::Realtime);
    let operation = if realtime { WAIT_UNTIL | libc::FUTEX_CLOCK_REALTIME as usize } else { WAIT_UNTIL };
    let (word, expected, set) = (word.addr(), expected as usize, set as usize);
    // SAFETY: the kernel reads the word, by the caller's promise, and the deadline; both live until
    // the call returns.
    outcome(unsafe { syscall6(libc::SYS_futex, word, operation, expected, place, 0, set) })
}

/// Wakes at most `count` of the threads that wait at `word`, an address only, as members of a set
/// in common with `set`; returns how many it woke.
pub fn wake_set(word: *const AtomicU32, count: u32, set: u32) -> usize {
    let count = count.min(i32::MAX as u32) as usize;
    // SAFETY: the kernel uses the address of a private futex as a key, and does not read the word.
    let result = unsafe { syscall6(libc::SYS_futex, word.addr(), WAKE_SET, count, 0, 0, set as usize) };
    check(result).unwrap_or(0)
}

/// Adds 1 to `word` and wakes at most `count` of the threads that wait there, in one step as far as
/// any [`wait`] can tell: who comes to wait for the new value cannot be woken by this, in whatever
/// order threads are woken. Returns how many it woke.
///
/// ```
/// use platform::{atomic::{AtomicU32, Ordering}, futex};
///
/// let word = AtomicU32::new(7);
/// assert_eq!(futex::advance(&word, 1), 0);
/// assert_eq!(word.load(Ordering::Relaxed), 8);
/// ```
pub fn advance(word: &AtomicU32, count: u32) -> usize {
    // Add 1; and if it was 0 before, wake one of the second word's, which is the same word: once in
    // 2³².
    const ADD_ONE: usize = 1 << 28 | 1 << 12;
    let (place, count) = (word.as_ptr().addr(), count.min(i32::MAX as u32) as usize);
    // SAFETY: the kernel adds to the word, atomically, and the word lives until the call returns.
    let result = unsafe { syscall6(libc::SYS_futex, place, WAKE_AND_CHANGE, count, 0, place, ADD_ONE) };
    check(result).unwrap_or_else(|_| {
        // A sandbox that does not know the operation, and has left the word alone.
        word.fetch_add(1, crate::atomic::Ordering::SeqCst);
        wake(word, count as u32)
    })
}

/// Wakes at most `count` of the threads that wait at `word`, an address only; returns how many it
/// woke.
///
/// ```
/// use platform::{atomic::AtomicU32, futex};
///
/// let gone: *const AtomicU32 = &raw const *Box::new(AtomicU32::new(0));
/// assert_eq!(futex::wake(gone, 1), 0);
/// ```
pub fn wake(word: *const AtomicU32, count: u32) -> usize {
    let count = count.min(i32::MAX as u32) as usize;
    // SAFETY: the kernel uses the address of a private futex as a key, and does not read the word.
    check(unsafe { syscall3(libc::SYS_futex, word.addr(), WAKE, count) }).unwrap_or(0)
}

/// Wakes all threads that wait at `word`, an address only; returns how many it woke.
pub fn wake_all(word: *const AtomicU32) -> usize {
    wake(word, u32::MAX)
}

pub(crate) fn outcome(result: isize) -> Outcome {
    match check(result) {
        Err(libc::ETIMEDOUT) => Outcome::TimedOut,
        Err(libc::EAGAIN) => Outcome::Changed,
        Err(libc::EINTR) => Outcome::Interrupted,
        _ => Outcome::Woken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Ordering;

    #[test]
    fn a_change_of_the_word_and_a_wake_miss_no_waiter() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        const ROUNDS: u32 = 2_000;
        let waiter = std::thread::spawn(|| {
            for round in 0..ROUNDS {
                while WORD.load(Ordering::Acquire) <= round {
                    wait(&WORD, round);
                }
            }
        });
        for _ in 0..ROUNDS {
            WORD.fetch_add(1, Ordering::Release);
            wake_all(&WORD);
        }
        waiter.join().expect("the waiter saw every change");
    }

    #[test]
    fn a_wake_counts_the_threads_that_it_woke() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        assert_eq!(wake_all(&WORD), 0);
        let waiters: Vec<_> =
            (0..3).map(|_| std::thread::spawn(|| while wait(&WORD, 0) != Outcome::Woken {})).collect();
        let mut woken = wake(&WORD, 1);
        assert!(woken <= 1);
        while woken < 3 {
            woken += wake_all(&WORD);
        }
        for waiter in waiters {
            waiter.join().expect("woken");
        }
        assert_eq!(woken, 3);
    }

    #[test]
    fn a_wake_reaches_its_set_only() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let waiter = std::thread::spawn(|| while wait_set(&WORD, 0, 2, None) != Outcome::Woken {});
        for _ in 0..100 {
            assert_eq!(wake_set(&WORD, 1, 1), 0);
        }
        while wake_set(&WORD, 1, 2) == 0 {}
        waiter.join().expect("woken");
        let waiter = std::thread::spawn(|| while wait_set(&WORD, 0, 2, None) != Outcome::Woken {});
        while wake(&WORD, 1) == 0 {}
        waiter.join().expect("woken");
    }

    #[test]
    fn a_wake_reads_nothing() {
        let page =
            crate::memory::map_zeroes(4096, crate::memory::READ | crate::memory::WRITE).expect("memory");
        let word: *const AtomicU32 = page.cast();
        // SAFETY: mapped above, and nobody uses it.
        unsafe { crate::memory::unmap(page.cast(), 4096) }.expect("it was mapped");
        assert_eq!((wake(word, 1), wake_all(word), wake_set(word, 1, ANY_SET)), (0, 0, 0));
    }

    #[test]
    fn a_wait_for_the_upper_half_ends_by_a_change_or_a_wake_up() {
        static WORD: AtomicU64 = AtomicU64::new(0);
        let waiter = std::thread::spawn(|| while wait_upper(&WORD, 0, 1, None) != Outcome::Woken {});
        // The lower half is none of its business.
        WORD.fetch_add(1, Ordering::Relaxed);
        while wake_set(upper(&WORD), 1, 1) == 0 {}
        waiter.join().expect("woken");
        WORD.fetch_add(1 << 32, Ordering::Relaxed);
        assert_eq!(wait_upper(&WORD, 0, 1, None), Outcome::Changed);
    }

    #[test]
    fn an_advance_wakes_those_of_the_old_value() {
        static WORD: AtomicU32 = AtomicU32::new(u32::MAX - 1);
        for before in [u32::MAX - 1, u32::MAX, 0] {
            let waiter = std::thread::spawn(move || while wait(&WORD, before) != Outcome::Changed {});
            let woken = advance(&WORD, 1);
            waiter.join().expect("woken, or the word had changed");
            assert!(woken <= 1);
            assert_eq!(WORD.load(Ordering::Relaxed), before.wrapping_add(1));
        }
    }

    #[test]
    fn a_deadline_in_the_past_is_over() {
        assert_eq!(wait_until(&AtomicU32::new(0), 0, 0), Outcome::TimedOut);
    }
}
