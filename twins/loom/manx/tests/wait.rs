//! The waiting room under loom: every order of steps that the memory model allows.
//!
//! Loom reports a deadlock if a wake-up is lost, because here a parked thread has no timeout to
//! save it, and spinning is bounded by 0. Each model preempts a thread a bounded number of times,
//! which is where the orders are that matter (Musuvathi and Qadeer, "Iterative context bounding",
//! 2007). That loom would find what these tests look for is a test of its own, at the end.

mod common;

use common::{check, join, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use manx_loom::wait::{Adaptive, Event, Mutable, Policy, Spin, Yield};
use std::time::Duration;

/// A limit that never ends a wait, but lets a waiter give up.
const LIMIT: Duration = Duration::from_nanos(u64::MAX - 1);

/// A lock made of a flag and a policy that is signalled, and a count of those inside.
struct Lock<P> {
    taken: AtomicBool,
    inside: AtomicU32,
    freed: P,
}

impl<P: Policy> Lock<P> {
    fn new(freed: P) -> Arc<Self> {
        Arc::new(Lock { taken: AtomicBool::new(false), inside: AtomicU32::new(0), freed })
    }

    /// By a compare-and-exchange that stores nothing if it fails: loom does not order the stores of
    /// failed swaps before a release that they did not see, as real memory must.
    fn try_lock(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn with(&self, signal: impl Fn(&P)) {
        self.freed.until(|| self.try_lock());
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        signal(&self.freed);
    }
}

/// Two threads and this one take the lock once each; afterwards nothing is left behind.
fn three_take_turns(preemptions: usize) {
    check(preemptions, || {
        let lock = Lock::new(Mutable::new());
        let others: Vec<_> =
            (0..2).map(|_| spawn(&lock, move |lock| lock.with(Mutable::signal_one))).collect();
        lock.with(Mutable::signal_one);
        join(others);
        assert_eq!((lock.freed.spinners(), lock.freed.parked()), (0, 0));
    });
}

#[test]
fn an_event_wakes_a_waiter() {
    check(3, || {
        let shared = Arc::new((AtomicBool::new(false), Event::new()));
        let waiter = spawn(&shared, move |shared| shared.1.until(|| shared.0.load(Ordering::Acquire)));
        shared.0.store(true, Ordering::Release);
        shared.1.signal_one();
        waiter.join().unwrap();
        assert_eq!(shared.1.parked(), 0);
    });
}

#[test]
fn an_event_wakes_all_waiters_and_shows_what_was_written() {
    check(2, || {
        let shared = Arc::new((AtomicU32::new(0), AtomicBool::new(false), Event::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                spawn(&shared, move |shared| {
                    shared.2.until(|| shared.1.load(Ordering::Acquire));
                    assert_eq!(shared.0.load(Ordering::Relaxed), 7);
                })
            })
            .collect();
        shared.0.store(7, Ordering::Relaxed);
        shared.1.store(true, Ordering::Release);
        shared.2.signal_all();
        join(waiters);
    });
}

#[test]
fn two_events_in_turn_do_not_lose_each_other() {
    check(3, || {
        let shared = Arc::new((AtomicU32::new(0), Event::new()));
        let other = spawn(&shared, move |shared| {
            shared.1.until(|| shared.0.load(Ordering::Acquire) == 1);
            shared.0.store(2, Ordering::Release);
            shared.1.signal_all();
        });
        shared.0.store(1, Ordering::Release);
        shared.1.signal_all();
        shared.1.until(|| shared.0.load(Ordering::Acquire) == 2);
        other.join().unwrap();
    });
}

#[test]
fn a_signal_to_one_reaches_the_next_in_turn() {
    check(2, || {
        let lock = Lock::new(Event::new());
        let others: Vec<_> = (0..2).map(|_| spawn(&lock, move |lock| lock.with(Event::signal_one))).collect();
        lock.with(Event::signal_one);
        join(others);
        assert_eq!(lock.freed.parked(), 0);
    });
}

#[test]
fn a_waiter_that_gives_up_hands_its_wake_up_on() {
    check(2, || {
        let lock = Lock::new(Event::new());
        assert!(lock.try_lock());
        let patient = spawn(&lock, move |lock| lock.with(Event::signal_one));
        let hasty = spawn(&lock, move |lock| {
            // It may give up (its first round has a limit), and does so once it was woken: the
            // lock is left to the patient one, and the only signal has not reached that one
            // then.
            let mut backoff = lock.freed.start();
            backoff.wait_at_most(LIMIT);
            if lock.taken.load(Ordering::Acquire) {
                backoff.wait();
            }
        });
        lock.taken.store(false, Ordering::Release);
        lock.freed.signal_one();
        patient.join().unwrap();
        hasty.join().unwrap();
    });
}

#[test]
fn a_mutable_wait_is_woken_and_leaves_no_spinner_behind() {
    check(3, || {
        let lock = Lock::new(Mutable::new());
        let other = spawn(&lock, move |lock| lock.with(Mutable::signal_one));
        lock.with(Mutable::signal_one);
        other.join().unwrap();
        assert_eq!((lock.freed.spinners(), lock.freed.parked()), (0, 0));
    });
}

#[test]
fn a_mutable_wait_with_three_leaves_no_spinner_behind() {
    three_take_turns(3);
}

#[test]
fn a_waiter_that_leaves_a_mutable_wait_after_spinning_hands_the_signal_on() {
    check(3, || {
        let lock = Lock::new(Mutable::new());
        assert!(lock.try_lock());
        let patient = spawn(&lock, move |lock| lock.with(Mutable::signal_one));
        let hasty = spawn(&lock, move |lock| {
            // It spins, stops, and leaves without a look, whether or not the only signal relied
            // on it.
            let mut backoff = lock.freed.start();
            backoff.wait_at_most(LIMIT);
            if lock.taken.load(Ordering::Acquire) {
                backoff.wait_at_most(LIMIT);
            }
        });
        lock.taken.store(false, Ordering::Release);
        lock.freed.signal_one();
        patient.join().unwrap();
        hasty.join().unwrap();
    });
}

#[test]
fn a_mutable_signal_to_all_reaches_all() {
    check(2, || {
        let shared = Arc::new((AtomicBool::new(false), Mutable::new()));
        let waiters: Vec<_> = (0..2)
            .map(|_| spawn(&shared, move |shared| shared.1.until(|| shared.0.load(Ordering::Acquire))))
            .collect();
        shared.0.store(true, Ordering::Release);
        shared.1.signal_all();
        join(waiters);
        assert_eq!((shared.1.spinners(), shared.1.parked()), (0, 0));
    });
}

/// Policies without signals: the loop ends when the other side is done, and the spin bound holds.
fn ends<P: Policy + Send + Sync + Clone + 'static>(policy: P) {
    check(3, move || {
        let shared = Arc::new((AtomicU32::new(0), AtomicBool::new(false)));
        let other = spawn(&shared, move |shared| {
            shared.0.store(7, Ordering::Relaxed);
            shared.1.store(true, Ordering::Release);
        });
        policy.until(|| shared.1.load(Ordering::Acquire));
        assert_eq!(shared.0.load(Ordering::Relaxed), 7);
        other.join().unwrap();
    });
}

#[test]
fn waits_without_signals_end() {
    ends(Spin);
    ends(Yield);
    ends(Adaptive::DEFAULT.yields(1));
}

#[test]
fn adaptive_waits_do_not_spin_here() {
    check(2, || {
        let mut backoff = Adaptive::DEFAULT.yields(2).start();
        for _ in 0..4 {
            backoff.wait();
        }
        let counts = backoff.counts();
        assert_eq!((counts.spins, counts.yields, counts.sleeps), (0, 2, 2));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn loom_would_find_a_signal_that_comes_before_its_condition() {
    check(2, || {
        // The standard library's: loom's own cannot be dropped once an execution has failed.
        use std::sync::Arc;
        let shared = Arc::new((AtomicBool::new(false), Event::new()));
        let waiter = spawn(&shared, move |shared| shared.1.until(|| shared.0.load(Ordering::Acquire)));
        shared.1.signal_all();
        shared.0.store(true, Ordering::Release);
        waiter.join().unwrap();
    });
}
