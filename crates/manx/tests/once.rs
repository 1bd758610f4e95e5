//! [`Once`] and [`ReentrantMutex`] on the machine: what their users may rely on.

use manx::lock::{Once, OnceState, ReentrantMutex};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use testing::until;

#[test]
fn of_many_callers_one_does_the_work_and_none_returns_before_it_is_done() {
    for _ in 0..200 {
        let (once, times, begin) = (Once::new(), AtomicU32::new(0), Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    once.call_once(|| {
                        thread::yield_now();
                        times.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!((times.load(Ordering::Relaxed), once.state()), (1, OnceState::Done));
                });
            }
        });
    }
}

#[test]
fn a_caller_that_comes_meanwhile_sleeps_until_the_work_is_done() {
    let (once, may_end) = (Once::new(), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| once.call_once(|| until("the end", || may_end.load(Ordering::Relaxed) == 1)));
        until("the work", || once.state() == OnceState::InProgress);
        let second = scope.spawn(|| once.call_once(|| panic!("done twice")));
        // The word says that a thread sleeps.
        until("a sleeper", || format!("{once:?}").contains("state: 5"));
        assert!(!second.is_finished());
        may_end.store(1, Ordering::Relaxed);
    });
    assert!(once.state().done());
}

#[test]
fn work_that_panicked_is_refused_until_it_is_forced() {
    let once = Once::new();
    let call = |work: fn()| catch_unwind(AssertUnwindSafe(|| once.call_once(work)));
    assert_eq!(once.state(), OnceState::New);
    assert!(call(|| panic!("no disk")).is_err());
    assert_eq!(once.state(), OnceState::Poisoned);
    assert!(call(|| ()).is_err(), "poisoned");
    once.call_once_force(|before| assert_eq!(before, OnceState::Poisoned));
    assert!(call(|| panic!("done already")).is_ok());
}

#[test]
fn a_waiter_sleeps_before_the_work_begins_and_until_it_is_done() {
    let once = Once::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| once.wait());
        until("a sleeper", || format!("{once:?}").contains("state: 1"));
        assert_eq!(once.state(), OnceState::New);
        once.call_once(|| assert!(!waiter.is_finished()));
    });
    assert!(once.is_completed());
    once.wait();
}

#[test]
fn a_waiter_panics_if_the_work_did_or_waits_for_another_attempt() {
    let once = Once::new();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| once.wait());
        let patient = scope.spawn(|| once.wait_force());
        until("a sleeper", || format!("{once:?}").contains("state: 1"));
        let failed = catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("no disk"))));
        assert!(failed.is_err() && waiter.join().is_err());
        until("a sleeper again", || format!("{once:?}").contains("state: 3"));
        assert!(once.state().is_poisoned() && !patient.is_finished());
        once.call_once_force(|_| ());
    });
    assert!(once.state().is_completed());
}

#[test]
fn work_that_counts_as_done_is_not_done_again() {
    static DONE: Once = Once::new_completed();
    DONE.call_once(|| panic!("done already"));
    DONE.wait();
    assert_eq!(DONE.state(), OnceState::Done);
}

#[test]
fn one_thread_locks_again_and_others_wait_for_the_last_unlock() {
    let mutex = ReentrantMutex::new(Cell::new(0));
    let outer = mutex.lock();
    let inner = mutex.lock();
    inner.set(1);
    let tried_elsewhere =
        || thread::scope(|scope| scope.spawn(|| mutex.try_lock().is_some()).join().unwrap());
    assert!(!tried_elsewhere());
    drop(inner);
    assert!(!tried_elsewhere(), "locked once still");
    assert_eq!(outer.get(), 1);
    drop(outer);
    assert!(tried_elsewhere());
}
