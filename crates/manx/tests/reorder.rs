//! Which threads overtake: one that stands by is passed by the threads in line, and stands in line
//! itself when its window is over.
//!
//! The order comes from events, never from how long something takes: a window either is 0, or ends
//! only after what the test waits for has happened, or is one whose end the test waits for.

#[path = "common/beneath.rs"]
mod beneath;

use beneath::{
    FOR_EVER, a_big_one_overtakes, a_thread_that_stood_by_gets_in_line,
    a_try_ends_at_once_from_a_little_core, an_slo_of_nothing_is_the_order_beneath, await_one_more_in_line,
    locks_are_nested, no_window_is_the_order_beneath, unlock,
};
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, FutexMutex, Mcs, RawLock, Reorderable};
use manx::slo;
use std::thread;
use std::time::Duration;

#[test]
fn without_a_window_the_order_is_that_of_the_lock_beneath() {
    no_window_is_the_order_beneath::<Mcs>();
}

#[test]
fn a_big_one_overtakes_a_little_one_that_stands_by() {
    a_big_one_overtakes::<Mcs>();
}

#[test]
fn one_that_stood_by_stands_in_line_when_the_window_is_over() {
    a_thread_that_stood_by_gets_in_line::<Mcs>();
}

#[test]
fn in_an_epoch_with_an_slo_of_nothing_the_order_is_that_of_the_lock_beneath() {
    an_slo_of_nothing_is_the_order_beneath::<Mcs>();
}

#[test]
fn locks_nest() {
    locks_are_nested::<FutexMutex>();
}

#[test]
fn a_try_from_a_little_core() {
    a_try_ends_at_once_from_a_little_core::<Mcs>();
    a_try_ends_at_once_from_a_little_core::<FutexMutex>();
}

#[test]
fn the_longest_window_bounds_every_other() {
    let lock = &Reorderable::<Mcs>::new();
    assert_eq!(lock.window_max(), slo::WINDOW_MAX);
    lock.set_window_max(Some(Duration::from_micros(10)));
    let held = lock.lock();
    thread::scope(|scope| {
        let before = lock.beneath().last_in_line();
        scope.spawn(move || {
            let held = lock.lock_reorder(FOR_EVER);
            unlock(lock, held);
        });
        await_one_more_in_line(lock.beneath(), before);
        unlock(lock, held);
    });
    lock.set_window_max(None);
    assert_eq!(lock.window_max(), slo::WINDOW_MAX);
}

/// The window is that of the epoch that the thread is in when it comes, inner epochs and their ends
/// included.
#[test]
fn the_innermost_epochs_window_rules() {
    const OUTER: u64 = 1;
    const INNER: u64 = 2;
    let lock = &Asl::<Mcs>::new();
    lock.set_window_max(Some(FOR_EVER));
    let line = lock.reorderable().beneath();
    let held = lock.lock();
    thread::scope(|scope| {
        let before = line.last_in_line();
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            slo::start(OUTER);
            slo::end(OUTER, u64::MAX);
            slo::start(OUTER);
            assert!(slo::window_ns() > Some(0));
            slo::start(INNER);
            // With the outer one's window it would stand by, and with that of no epoch for ever.
            assert_eq!(slo::window_ns(), Some(0));
            let held = lock.lock();
            unlock(lock, held);
            slo::end(INNER, 0);
            assert!(slo::window_ns() > Some(0));
            slo::end(OUTER, 0);
        });
        await_one_more_in_line(line, before);
        unlock(lock, held);
    });
    assert!(!lock.is_locked());
}

/// Others wait for the holder of a lock, so it does not stand by for a second one; once it holds
/// none it does again.
#[test]
fn a_holder_of_such_a_lock_does_not_stand_by_for_another() {
    let (outer, inner) = (&Asl::<Mcs>::new(), &Asl::<Mcs>::new());
    outer.set_window_max(Some(FOR_EVER));
    inner.set_window_max(Some(FOR_EVER));
    let line = inner.reorderable().beneath();
    let held = inner.lock();
    thread::scope(|scope| {
        let before = line.last_in_line();
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            let first = outer.lock();
            let second = inner.lock();
            unlock(inner, second);
            unlock(outer, first);
        });
        await_one_more_in_line(line, before);
        unlock(inner, held);
    });
    assert!(!outer.is_locked() && !inner.is_locked());
}

#[test]
fn a_condition_variable_waits_with_such_a_lock() {
    use manx::lock::Condvar;
    let (ready, changed) = (&lock_api::Mutex::<Asl<Mcs>, bool>::new(false), &Condvar::new());
    thread::scope(|scope| {
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            let mut guard = ready.lock();
            while !*guard {
                changed.wait(&mut guard);
            }
        });
        *ready.lock() = true;
        changed.notify_all();
    });
    assert!(!ready.is_locked());
}
