//! The default lock under randomized schedules: more threads than loom can bear, limits that race
//! with hand-offs, and the C library's own functions at work on the same word.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests/bounded.rs`).

// The tests of both checkers call the twin of manx by one name.
extern crate manx_shuttle as manx;

#[path = "../../../loom/manx/tests/common/bounded.rs"]
mod by_words;
mod common;

use by_words::{BARGING, Lock, STARVING};
use common::together;
use manx::lock::bounded::{self, MARKED, STARVING_ONE, Thread, UNBOUNDED_NS, Wait};
use platform::explore::check;
use platform::futex::{self, Clock, Deadline};
use platform::site;
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;

const THREADS: u32 = 5;
const ROUNDS: u32 = 3;

/// As the GNU C library does it, which knows the first word only, and of that 0, 1 and more.
fn with_lock_of_the_c_library(lock: &Lock) {
    if lock.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        if lock.word.load(Ordering::Relaxed) == 2 {
            futex::wait(&lock.word, 2);
        }
        while lock.word.swap(2, Ordering::Acquire) != 0 {
            futex::wait(&lock.word, 2);
        }
    }
    lock.pass();
    if lock.word.swap(0, Ordering::Release) > 1 {
        futex::wake(&lock.word, 1);
    }
}

/// Polls until it has had the lock, as a thread does that calls `trylock` again and again. Under
/// `manx run` it joins a hand-off after a window; here at any step.
fn come_late(lock: &Lock) {
    while lock.try_with_lock().is_none() {
        platform::thread::yield_now();
    }
}

#[test]
fn starving_and_barging_waiters_take_turns() {
    check(site!(), || {
        let lock = Lock::new();
        together(THREADS, &lock, |lock, number| {
            let wait = if number % 2 == 0 { STARVING } else { BARGING };
            (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
        });
        lock.assert_left(THREADS * ROUNDS);
    });
}

/// Beside threads that stand in no line.
#[test]
fn waiters_that_stand_in_line_take_turns() {
    check(site!(), || {
        let lock = Lock::new();
        together(THREADS, &lock, |lock, number| {
            (0..ROUNDS).for_each(|_| match number {
                0 => assert!(lock.with_lock(&STARVING)),
                1 => lock.with_lock_in_line(0),
                _ => lock.with_lock_in_line(UNBOUNDED_NS),
            });
        });
        lock.assert_left(THREADS * ROUNDS);
    });
}

/// Both ways of waiting that ship: Rust's mutexes trust, a program's under `manx run` do not.
#[test]
fn windows_that_end_at_any_step_lose_nobody() {
    for trusting in [true, false] {
        check(site!(), move || {
            let lock = Lock::new();
            together(THREADS, &lock, move |lock, number| {
                let window_ns = Some(u64::from(number) * 1_000);
                let wait = Wait { window_ns, turns: None, deadline: None, trusting };
                (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
            });
            lock.assert_left(THREADS * ROUNDS);
        });
    }
}

/// A waiter whose window ends while the lock is handed off to others joins them, and does not take
/// the place of one: that waiter would sleep on, counted no more. Here it would sleep for ever,
/// because it trusts.
#[test]
fn a_hand_off_goes_to_those_counted_only() {
    check(site!(), || {
        let lock = Lock::new();
        together(THREADS, &lock, |lock, number| {
            let hasty = Wait { window_ns: Some(0), turns: None, deadline: None, trusting: false };
            let wait = if number < 2 { hasty } else { STARVING };
            (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
        });
        lock.assert_left(THREADS * ROUNDS);
    });
}

#[test]
fn timeouts_race_with_hand_offs_and_leave_nothing_behind() {
    check(site!(), || {
        let lock = Lock::new();
        together(THREADS, &lock, |lock, number| {
            let thread_limit = |timeout_ns: u64| Deadline {
                clock: if number % 2 == 0 { Clock::Monotonic } else { Clock::Realtime },
                ns: platform::clock::now_ns() + timeout_ns,
            };
            for round in 0..ROUNDS {
                let deadline = (number > 0).then(|| thread_limit(u64::from(round) * 5_000));
                let window_ns = Some(if number == 2 { UNBOUNDED_NS } else { 0 });
                let acquired = lock.with_lock(&Wait { window_ns, turns: None, deadline, trusting: true });
                assert!(acquired || number > 0);
            }
        });
        let passed = lock.passed();
        assert!(passed >= ROUNDS);
        lock.assert_left(passed);
    });
}

/// Sleepers that nothing but a wake-up ends, beside some that poll and give up, or become
/// starving.
#[test]
fn a_thread_that_polls_forgets_no_sleeper() {
    check(site!(), || {
        let lock = Lock::with(0, bounded::about_to_poll());
        together(THREADS, &lock, |lock, number| {
            for round in 0..ROUNDS {
                let later_ns = u64::from(round + 1) * 40_000;
                let (window_ns, timeout_ns) = match number {
                    0 | 1 => (UNBOUNDED_NS, None),
                    2 => (UNBOUNDED_NS, Some(later_ns)),
                    3 => (later_ns, None),
                    _ => (later_ns, Some(2 * later_ns)),
                };
                let deadline = timeout_ns.map(|timeout_ns| Deadline {
                    clock: Clock::Monotonic,
                    ns: platform::clock::now_ns() + timeout_ns,
                });
                let wait = Wait { window_ns: Some(window_ns), turns: None, deadline, trusting: true };
                assert!(lock.with_lock(&wait) || deadline.is_some());
            }
        });
        lock.assert_left(lock.passed());
    });
}

/// Counts may be wrong for a while, so what is left in `side` is not asserted; exclusion and
/// progress are.
#[test]
fn the_c_library_works_on_the_same_word() {
    check(site!(), || {
        let lock = Lock::new();
        together(4, &lock, |lock, number| {
            for _ in 0..ROUNDS {
                match number {
                    0 => with_lock_of_the_c_library(lock),
                    1 => assert!(lock.with_lock(&BARGING)),
                    _ => assert!(lock.with_lock(&Wait { trusting: false, ..STARVING })),
                }
            }
        });
        assert_eq!(lock.passed(), 4 * ROUNDS);
        assert_eq!(lock.word.load(Ordering::Relaxed), 0);
    });
}

/// Two threads that never wait join hand-offs at any step, beside waiters of each kind. None of the
/// waiters loses its place: those that trust would sleep for ever.
#[test]
fn late_comers_join_hand_offs_and_nobody_is_lost() {
    check(site!(), || {
        let lock = Lock::new();
        together(THREADS, &lock, |lock, number| {
            for _ in 0..ROUNDS {
                match number {
                    0 | 1 => come_late(lock),
                    2 => assert!(lock.with_lock(&STARVING)),
                    3 => assert!(lock.with_lock(&Wait { trusting: false, ..STARVING })),
                    _ => assert!(lock.with_lock(&BARGING)),
                }
            }
        });
        lock.assert_left(THREADS * ROUNDS);
    });
}

/// Beside them, hand-offs that are unmoved are taken by waiters, and ghosts are counted.
#[test]
fn late_comers_join_in_the_child_of_a_fork() {
    check(site!(), || {
        platform::fork::become_child();
        let lock = Lock::with(MARKED | 2, 2 * STARVING_ONE);
        lock.pass();
        lock.release(&Thread::new());
        together(4, &lock, |lock, number| {
            (0..ROUNDS).for_each(|_| match number {
                0 => come_late(lock),
                _ => assert!(lock.with_lock(&Wait { trusting: number == 1, ..Wait::default() })),
            });
        });
        assert_eq!(lock.passed(), 1 + 4 * ROUNDS);
    });
}

#[test]
fn ghosts_of_a_fork_hold_nobody_up_for_ever() {
    check(site!(), || {
        // As a forked child finds it: two waiters are counted that are not there, and it holds the
        // lock.
        platform::fork::become_child();
        let lock = Lock::with(MARKED | 2, 2 * STARVING_ONE);
        lock.pass();
        lock.release(&Thread::new());
        together(3, &lock, |lock, number| {
            let wait = Wait { trusting: number == 0, ..Wait::default() };
            (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
        });
        assert_eq!(lock.passed(), 1 + 3 * ROUNDS);
    });
}
