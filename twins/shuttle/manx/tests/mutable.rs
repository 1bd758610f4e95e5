//! The mutable policy under randomized schedules: spinners, sleepers woken ahead of time, and
//! waiters that give up, all at once.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests`). Three may spin here, and the virtual clock ends a spin at any step.

mod common;

use common::{Lock, join, some_give_up, spawn, start, together};
use manx_shuttle::wait::{Mutable, Policy, set_short_of_cpus};
use platform::explore::check;
use platform::{site, thread};
use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const THREADS: u32 = 6;
const ROUNDS: u32 = 3;
const LIMIT: Duration = Duration::from_micros(20);

/// Checks that no waiter is left behind once all are done.
fn assert_empty(policy: &Mutable) {
    assert_eq!((policy.spinners(), policy.parked()), (0, 0));
}

#[test]
fn a_mutable_lock_passes_to_all_and_leaves_no_spinner_behind() {
    check(site!(), || {
        let lock = Lock::new(Mutable::new());
        together(THREADS, &lock, |lock, _| {
            (0..ROUNDS).for_each(|_| lock.with(Mutable::signal_one));
        });
        assert_eq!(lock.passed(), THREADS * ROUNDS);
        assert_empty(&lock.freed);
    });
}

#[test]
fn a_mutable_signal_to_all_reaches_all_in_every_round() {
    check(site!(), || {
        let shared = Arc::new((AtomicU32::new(0), Mutable::new()));
        let signaller = spawn(&shared, move |shared| {
            for _ in 0..ROUNDS {
                shared.0.fetch_add(1, Ordering::Release);
                shared.1.signal_all();
            }
        });
        together(THREADS, &shared, |(number, grown), _| {
            for round in 1..=ROUNDS {
                grown.until(|| number.load(Ordering::Acquire) >= round);
            }
        });
        signaller.join().unwrap();
        assert_empty(&shared.1);
    });
}

#[test]
fn mutable_waits_that_give_up_leave_the_lock_to_the_others() {
    check(site!(), || {
        let lock = Lock::new(Mutable::new());
        some_give_up(&lock, [THREADS, ROUNDS], LIMIT, Mutable::signal_one);
        assert_empty(&lock.freed);
    });
}

#[test]
fn a_waiter_that_leaves_a_mutable_wait_hands_the_only_signal_on() {
    // No other thread could take the lock and signal again, so all depends on the hand-over.
    const PATIENT: u32 = 1;
    check(site!(), || {
        let lock = Lock::new(Mutable::new());
        assert!(lock.try_lock());
        let others = start(THREADS, &lock, |lock, number| {
            if number < PATIENT {
                lock.with(Mutable::signal_one);
            } else {
                // It leaves once it sees the lock free, which it has no use for, or without
                // another look after a number of rounds: spinning, about to park, or just
                // woken.
                let mut backoff = lock.freed.start();
                let mut rounds_left = 1 + thread_rng().next_u64() % 5;
                while rounds_left > 0 && lock.taken.load(Ordering::Acquire) {
                    backoff.wait_at_most(LIMIT);
                    rounds_left -= 1;
                }
            }
        });
        for _ in 0..2 * THREADS {
            // Better with a parked thread that the signal can reach; it comes in any case.
            if lock.freed.parked() < 2 {
                thread::yield_now();
            }
        }
        lock.taken.store(false, Ordering::Release);
        lock.freed.signal_one();
        join(others);
        assert_eq!(lock.passed(), PATIENT);
        assert_empty(&lock.freed);
    });
}

#[test]
fn a_shortage_that_comes_and_goes_loses_nobody() {
    check(site!(), || {
        let lock = Lock::new(Mutable::new());
        let watcher = thread::spawn(|| (0..2 * ROUNDS).for_each(|round| set_short_of_cpus(round % 2 == 0)));
        together(THREADS, &lock, |lock, _| {
            (0..ROUNDS).for_each(|_| lock.with(Mutable::signal_one));
        });
        watcher.join().unwrap();
        assert_eq!(lock.passed(), THREADS * ROUNDS);
        assert_empty(&lock.freed);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_lock_that_forgets_a_signal_would_be_found() {
    check(site!(), || {
        let lock = Lock::new(Mutable::new());
        together(THREADS, &lock, |lock, number| {
            lock.with(|freed| {
                if number != 0 {
                    freed.signal_one()
                }
            });
        });
    });
}
