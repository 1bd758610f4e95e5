//! Parking under randomized schedules: more threads and rounds than loom can try, and limits that
//! race with wake-ups.
//!
//! Shuttle models sequentially consistent memory only, whatever ordering is asked for; the
//! orderings are loom's business (`twins/loom/manx/tests`). A lost wake-up is a deadlock here as
//! it is there: a thread that parks without a limit has nothing else to save it.

mod common;

use common::{Lock, join, some_give_up, spawn, start, together};
use manx_shuttle::wait::{Event, Policy};
use platform::explore::check;
use platform::site;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const THREADS: u32 = 6;
const ROUNDS: u32 = 3;
/// Some limits pass soon and some late.
const LIMIT: Duration = Duration::from_micros(20);

/// A number that grows, and an event for its growth.
struct Counter {
    number: AtomicU32,
    shown: AtomicU32,
    grown: Event,
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Counter { number: AtomicU32::new(0), shown: AtomicU32::new(0), grown: Event::new() })
    }

    fn reached(&self, number: u32) -> bool {
        self.number.load(Ordering::Acquire) >= number
    }

    /// Waits without spinning until the number is so large.
    fn wait_for(&self, number: u32) {
        let mut backoff = self.grown.start_spinning(0);
        while !self.reached(number) {
            backoff.wait();
        }
    }

    fn grow(&self) {
        self.number.fetch_add(1, Ordering::Release);
        self.grown.signal_all();
    }
}

#[test]
fn an_event_wakes_a_waiter_in_every_round() {
    check(site!(), || {
        let counter = Counter::new();
        let waiter = spawn(&counter, move |counter| (1..=ROUNDS).for_each(|round| counter.wait_for(round)));
        for _ in 0..ROUNDS {
            counter.number.fetch_add(1, Ordering::Release);
            counter.grown.signal_one();
        }
        waiter.join().unwrap();
        assert_eq!(counter.grown.parked(), 0);
    });
}

#[test]
fn an_event_wakes_all_waiters_and_shows_what_was_written() {
    check(site!(), || {
        let counter = Counter::new();
        let signaller = spawn(&counter, move |counter| {
            for round in 1..=ROUNDS {
                counter.shown.store(round * 7, Ordering::Relaxed);
                counter.grow();
            }
        });
        together(THREADS, &counter, |counter, _| {
            for round in 1..=ROUNDS {
                counter.wait_for(round);
                assert!(counter.shown.load(Ordering::Relaxed) >= round * 7);
            }
        });
        signaller.join().unwrap();
        assert_eq!(counter.grown.parked(), 0);
    });
}

#[test]
fn threads_that_wait_for_each_other_in_a_ring_all_get_their_turns() {
    check(site!(), || {
        let counter = Counter::new();
        together(THREADS, &counter, |counter, number| {
            for round in 0..ROUNDS {
                counter.grown.until(|| counter.reached(round * THREADS + number));
                counter.grow();
            }
        });
        assert!(counter.reached(THREADS * ROUNDS));
        assert_eq!(counter.grown.parked(), 0);
    });
}

#[test]
fn a_signal_to_one_reaches_the_next_in_turn() {
    check(site!(), || {
        let lock = Lock::new(Event::new());
        together(THREADS, &lock, |lock, _| {
            (0..ROUNDS).for_each(|_| lock.with(Event::signal_one));
        });
        assert_eq!((lock.passed(), lock.freed.parked()), (THREADS * ROUNDS, 0));
    });
}

#[test]
fn a_waiter_that_gives_up_hands_its_wake_up_on() {
    check(site!(), || {
        let lock = Lock::new(Event::new());
        assert!(lock.try_lock());
        let others = start(THREADS, &lock, |lock, number| {
            if number % 2 == 0 {
                lock.with(Event::signal_one);
            } else {
                // It gives up after it was woken: the only signal has not reached the
                // patient ones then.
                let mut backoff = lock.freed.start_spinning(0);
                backoff.wait_at_most(LIMIT);
                backoff.wait_at_most(LIMIT);
            }
        });
        lock.taken.store(false, Ordering::Release);
        lock.freed.signal_one();
        join(others);
        assert_eq!((lock.passed(), lock.freed.parked()), (THREADS / 2, 0));
    });
}

#[test]
fn limits_that_race_with_signals_lose_neither_the_lock_nor_a_wake_up() {
    check(site!(), || {
        let lock = Lock::new(Event::new());
        some_give_up(&lock, [THREADS, ROUNDS], LIMIT, Event::signal_one);
        assert_eq!(lock.freed.parked(), 0);
    });
}

#[test]
fn tokens_find_takers_though_some_give_up() {
    check(site!(), || {
        // As many tokens as the patient threads need; what a hasty one takes, it gives back.
        let counter = Counter::new();
        let takers = start(THREADS, &counter, |counter, number| {
            let take = || {
                let one_less = |tokens: u32| tokens.checked_sub(1);
                let update = counter.number.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
                update.is_ok()
            };
            if number % 2 == 0 {
                counter.grown.until(take);
            } else if counter.grown.until_for(LIMIT, take) {
                counter.number.fetch_add(1, Ordering::Release);
                counter.grown.signal_one();
            }
        });
        for _ in 0..THREADS / 2 {
            counter.number.fetch_add(1, Ordering::Release);
            counter.grown.signal_one();
        }
        join(takers);
        assert_eq!((counter.number.load(Ordering::Relaxed), counter.grown.parked()), (0, 0));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_signal_that_comes_before_its_condition_would_be_found() {
    check(site!(), || {
        let counter = Counter::new();
        let waiter = spawn(&counter, move |counter| counter.wait_for(1));
        counter.grown.signal_all();
        counter.number.store(1, Ordering::Release);
        waiter.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_signal_to_one_that_two_need_would_be_found() {
    check(site!(), || {
        let counter = Counter::new();
        let signaller = spawn(&counter, move |counter| {
            counter.number.store(1, Ordering::Release);
            counter.grown.signal_one();
        });
        together(2, &counter, |counter, _| counter.wait_for(1));
        signaller.join().unwrap();
    });
}
