//! The default lock under randomized schedules: more threads than loom can bear, limits that race
//! with hand-offs, and the C library's own functions at work on the same word.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests/bounded.rs`).

mod common;

use common::together;
use manx_shuttle::lock::bounded::{self, MARKED, POLLING, STARVING_ONE, Thread, UNBOUNDED_NS, Wait};
use platform::explore::check;
use platform::futex::{self, Clock, Deadline};
use platform::site;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};

const THREADS: u32 = 5;
const ROUNDS: u32 = 3;

/// Overtaken for ever.
const BARGING: Wait = Wait { window_ns: Some(UNBOUNDED_NS), each_ns: 0, deadline: None, trusting: true };
/// Starving as soon as it waits.
const STARVING: Wait = Wait { window_ns: Some(0), each_ns: 0, deadline: None, trusting: true };

struct Lock {
    word: AtomicU32,
    side: AtomicU32,
    inside: AtomicU32,
    passed: AtomicU32,
}

impl Lock {
    fn new(word: u32, side: u32) -> Arc<Lock> {
        let new = AtomicU32::new;
        Arc::new(Lock { word: new(word), side: new(side), inside: new(0), passed: new(0) })
    }

    fn pass(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&self, thread: &Thread) {
        if !bounded::try_release(&self.word) {
            bounded::release_slow(&self.word, &self.side, thread);
        }
    }

    fn with_lock(&self, wait: &Wait) -> bool {
        let thread = Thread::new();
        let acquired = bounded::try_acquire(&self.word)
            || bounded::acquire_slow(&self.word, &self.side, &thread, wait).is_ok();
        if acquired {
            self.pass();
            self.release(&thread);
        }
        acquired
    }

    /// As a mutex of the library's own where more than two CPUs are used.
    fn with_lock_in_line(&self, window_ns: u64) {
        let thread = Thread::new();
        if !bounded::try_acquire(&self.word)
            && let Err(side_seen) = bounded::spin_in_line(&self.word, &self.side, &thread, |_| window_ns)
        {
            let wait = Wait { window_ns: Some(window_ns), ..BARGING };
            bounded::sleep(&self.word, &self.side, &thread, &wait, side_seen).expect("no deadline");
        }
        self.pass();
        self.release(&thread);
    }

    /// As the GNU C library does it, which knows the first word only, and of that 0, 1 and more.
    fn with_lock_of_the_c_library(&self) {
        if self.word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            if self.word.load(Ordering::Relaxed) == 2 {
                futex::wait(&self.word, 2);
            }
            while self.word.swap(2, Ordering::Acquire) != 0 {
                futex::wait(&self.word, 2);
            }
        }
        self.pass();
        if self.word.swap(0, Ordering::Release) > 1 {
            futex::wake(&self.word, 1);
        }
    }

    fn assert_left(&self, passed: u32) {
        assert_eq!(self.word.load(Ordering::Relaxed), 0, "free");
        let side = self.side.load(Ordering::Relaxed);
        assert_eq!(side & (0x1f_ffff | POLLING), 0, "no waiter is counted or polls, nothing is handed off");
        assert_eq!(self.passed.load(Ordering::Relaxed), passed);
    }
}

#[test]
fn starving_and_barging_waiters_take_turns() {
    check(site!(), || {
        let lock = Lock::new(0, 0);
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
        let lock = Lock::new(0, 0);
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
            let lock = Lock::new(0, 0);
            together(THREADS, &lock, move |lock, number| {
                let each_ns = if trusting { 0 } else { 500 };
                let window_ns = Some(u64::from(number) * 1_000);
                let wait = Wait { window_ns, each_ns, deadline: None, trusting };
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
        let lock = Lock::new(0, 0);
        together(THREADS, &lock, |lock, number| {
            let hasty = Wait { window_ns: Some(0), each_ns: 500, deadline: None, trusting: false };
            let wait = if number < 2 { hasty } else { STARVING };
            (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
        });
        lock.assert_left(THREADS * ROUNDS);
    });
}

#[test]
fn timeouts_race_with_hand_offs_and_leave_nothing_behind() {
    check(site!(), || {
        let lock = Lock::new(0, 0);
        together(THREADS, &lock, |lock, number| {
            let thread_limit = |timeout_ns: u64| Deadline {
                clock: if number % 2 == 0 { Clock::Monotonic } else { Clock::Realtime },
                ns: platform::clock::now_ns() + timeout_ns,
            };
            for round in 0..ROUNDS {
                let deadline = (number > 0).then(|| thread_limit(u64::from(round) * 5_000));
                let window_ns = Some(if number == 2 { UNBOUNDED_NS } else { 0 });
                let acquired = lock.with_lock(&Wait { window_ns, each_ns: 0, deadline, trusting: true });
                assert!(acquired || number > 0);
            }
        });
        let passed = lock.passed.load(Ordering::Relaxed);
        assert!(passed >= ROUNDS);
        lock.assert_left(passed);
    });
}

/// Sleepers that nothing but a wake-up ends, beside some that poll and give up, or become
/// starving.
#[test]
fn a_thread_that_polls_forgets_no_sleeper() {
    check(site!(), || {
        let lock = Lock::new(0, bounded::about_to_poll());
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
                let wait = Wait { window_ns: Some(window_ns), each_ns: 0, deadline, trusting: true };
                assert!(lock.with_lock(&wait) || deadline.is_some());
            }
        });
        lock.assert_left(lock.passed.load(Ordering::Relaxed));
    });
}

/// Counts may be wrong for a while, so what is left in `side` is not asserted; exclusion and
/// progress are.
#[test]
fn the_c_library_works_on_the_same_word() {
    check(site!(), || {
        let lock = Lock::new(0, 0);
        together(4, &lock, |lock, number| {
            for _ in 0..ROUNDS {
                match number {
                    0 => lock.with_lock_of_the_c_library(),
                    1 => assert!(lock.with_lock(&BARGING)),
                    _ => assert!(lock.with_lock(&Wait { trusting: false, ..STARVING })),
                }
            }
        });
        assert_eq!(lock.passed.load(Ordering::Relaxed), 4 * ROUNDS);
        assert_eq!(lock.word.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn ghosts_of_a_fork_hold_nobody_up_for_ever() {
    check(site!(), || {
        // As a forked child finds it: two waiters are counted that are not there, and it holds the
        // lock.
        platform::fork::become_child();
        let lock = Lock::new(MARKED | 2, 2 * STARVING_ONE);
        lock.pass();
        lock.release(&Thread::new());
        together(3, &lock, |lock, number| {
            let wait = Wait { trusting: number == 0, ..Wait::default() };
            (0..ROUNDS).for_each(|_| assert!(lock.with_lock(&wait)));
        });
        assert_eq!(lock.passed.load(Ordering::Relaxed), 1 + 3 * ROUNDS);
    });
}
