//! Turns: when the waiters of a lock may have it handed off to them, one after the other.
//!
//! A hand-off is dear. The next holder may have to get a CPU, and all that the lock protects moves
//! into another CPU's cache: 0.1 to 0.3 ms of SQLite's time, where a hand-off once in a millisecond
//! costs a tenth of the throughput. If each waiter ended its window by itself, the number of
//! hand-offs would grow with the number of waiters. So a waiter books a turn when it goes to sleep:
//! the first one that is at least its window away and that lies [`TURN_NS`] behind the turn that
//! was booked before. The waiter is starving from then on (`bounded.rs`). A waiter that gets the
//! lock before gives its turn back.
//!
//! One word says when the next turn may begin, by the monotonic clock in nanoseconds. All-zero is a
//! lock without a booked turn. Its lowest bit serves threads that cannot wait, see
//! [`is_stale`].
//!
//! # The bound
//! A turn begins at most [`TURN_NS`] × the number of the other waiters after the end of the
//! waiter's window, if the window is at least that time. For the word is moved by turns only:
//! forwards by a waiter that books, and back by a waiter that gives back. Count from the last turn
//! that has begun. It lies in the past, and each turn behind it belongs to a waiter that waits, or
//! was given back.
//!
//! Invariants:
//! 1. The word is a hint: no thread holds a lock because of it. So its steps are relaxed.
//! 2. It was moved forwards by a turn for each turn that is given back.

use platform::atomic::{AtomicU64, Ordering};

/// The time between two turns.
pub const TURN_NS: u64 = 1_500_000;
/// A thread that could not wait saw a hand-off at the time that the rest of the word says.
const NOTED: u64 = 1;

/// Books the next turn for a waiter whose window ends then, and returns when it begins.
pub(super) fn book(next: &AtomicU64, window_end_ns: u64) -> u64 {
    let mut begins_ns = window_end_ns;
    let one_more = |next: u64| {
        begins_ns = window_end_ns.max(next & !NOTED);
        Some(begins_ns.saturating_add(TURN_NS) & !NOTED)
    };
    let _ = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    begins_ns
}

/// The waiter got the lock, or gave up, before its turn.
pub(super) fn give_back(next: &AtomicU64) {
    next.fetch_sub(TURN_NS, Ordering::Relaxed);
}

/// Returns true for a hand-off that a caller of this saw `window_ns` ago too, if no waiter has come
/// since; otherwise notes the time of the first such look. The next holder may be stopped by a
/// handler of a signal until the caller has the lock: a thread that stops all others and then polls
/// `trylock` is such a caller.
pub fn is_stale(next: &AtomicU64, now_ns: u64, window_ns: u64) -> bool {
    let seen = next.load(Ordering::Relaxed);
    let noted = seen & NOTED != 0;
    if noted && now_ns.saturating_sub(seen) < window_ns {
        return false;
    }
    // The caller that takes the note away may take the hand-off; the first one only notes the time.
    let left = if noted { seen & !NOTED } else { seen.max(now_ns) | NOTED };
    next.compare_exchange(seen, left, Ordering::Relaxed, Ordering::Relaxed).is_ok() && noted
}

/// Forgets what was noted of a hand-off: a waiter has come to hold the lock.
pub fn forget(next: &AtomicU64) {
    if next.load(Ordering::Relaxed) & NOTED != 0 {
        next.fetch_and(!NOTED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_NS: u64 = 4 * TURN_NS;

    #[test]
    fn turns_lie_apart_and_are_given_back() {
        let next = AtomicU64::new(0);
        for number in 0..99 {
            assert_eq!(book(&next, WINDOW_NS), WINDOW_NS + number * TURN_NS);
        }
        (0..99).for_each(|_| give_back(&next));
        assert_eq!(book(&next, WINDOW_NS), WINDOW_NS);
    }

    #[test]
    fn a_turn_that_is_long_past_delays_no_waiter() {
        let next = AtomicU64::new(0);
        book(&next, WINDOW_NS);
        assert_eq!(book(&next, 9 * WINDOW_NS), 9 * WINDOW_NS);
    }

    #[test]
    fn a_hand_off_is_stale_once_for_each_note_and_a_window_later() {
        let next = AtomicU64::new(0);
        let now_ns = 7 * WINDOW_NS;
        assert!(!is_stale(&next, now_ns, WINDOW_NS), "noted");
        assert!(!is_stale(&next, now_ns + WINDOW_NS - 2, WINDOW_NS), "too soon");
        assert!(is_stale(&next, now_ns + WINDOW_NS + 2, WINDOW_NS));
        assert!(!is_stale(&next, now_ns + WINDOW_NS + 2, WINDOW_NS), "noted again");
        forget(&next);
        assert!(!is_stale(&next, now_ns + 9 * WINDOW_NS, WINDOW_NS), "forgotten");
        book(&next, now_ns);
        assert!(!is_stale(&next, now_ns + 99 * WINDOW_NS, WINDOW_NS), "a waiter came");
    }

    /// The model: waiters that book and give back in any order, while time goes on. No turn begins
    /// later than one turn for each other waiter behind its window.
    #[test]
    fn no_turn_begins_later_than_one_turn_for_each_other_waiter() {
        const THREADS: usize = 6;
        for seed in 1..=400u64 {
            let (next, mut state, mut now_ns) = (AtomicU64::new(0), seed, 0);
            let mut turns: [Option<u64>; THREADS] = [None; THREADS];
            for _ in 0..2_000 {
                // Xorshift (Marsaglia 2003).
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                now_ns += state % (TURN_NS / 2);
                for turn in &mut turns {
                    *turn = turn.filter(|&begins_ns| begins_ns > now_ns);
                }
                let turn = &mut turns[(state >> 32) as usize % THREADS];
                if turn.take().is_some() {
                    give_back(&next);
                } else {
                    let begins_ns = book(&next, now_ns + WINDOW_NS);
                    let most_ns = now_ns + WINDOW_NS + (THREADS as u64 - 1) * TURN_NS;
                    assert!(begins_ns <= most_ns, "seed {seed}");
                    *turn = Some(begins_ns);
                }
            }
        }
    }
}
