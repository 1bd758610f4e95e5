//! Threads that do not stand by, though they run on a little core.
//!
//! A thread that stands by is in no line, and its windows here outlast every test: so a thread that
//! comes to stand in line did not stand by.

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "common/beneath.rs"]
mod beneath;

use beneath::{FOR_EVER, await_one_more_in_line, unlock};
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, Mcs, RawLock, Reorderable};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testing::until;

#[test]
fn a_holder_of_another_such_lock() {
    let (outer, inner) = (&Asl::over(Mcs::new()), &Asl::over(Mcs::new()));
    inner.set_window_max(Some(FOR_EVER));
    for tried in [false, true] {
        let held = inner.lock();
        let before = inner.reorderable().beneath().last_in_line();
        thread::scope(|scope| {
            scope.spawn(move || {
                set_class_of_this_thread(Some(Class::Little));
                let held = if tried { outer.try_lock().expect("free") } else { outer.lock() };
                let held_too = inner.lock();
                unlock(inner, held_too);
                unlock(outer, held);
            });
            await_one_more_in_line(inner.reorderable().beneath(), before);
            unlock(inner, held);
        });
    }
}

#[test]
fn a_thread_that_has_released_the_other_lock_stands_by_again() {
    let (outer, inner) = (&Asl::over(Mcs::new()), &Asl::over(Mcs::new()));
    inner.set_window_max(Some(FOR_EVER));
    let (held, came, order) = (inner.lock(), &AtomicBool::new(false), &Mutex::new(Vec::new()));
    let before = inner.reorderable().beneath().last_in_line();
    thread::scope(|scope| {
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            unlock(outer, outer.lock());
            came.store(true, Ordering::Relaxed);
            let held = inner.lock();
            order.lock().expect("no panic").push("little");
            unlock(inner, held);
        });
        until("the little thread", || came.load(Ordering::Relaxed));
        // A big one stands in line, and no other thread ever does.
        scope.spawn(move || {
            let held = inner.lock();
            order.lock().expect("no panic").push("big");
            unlock(inner, held);
        });
        await_one_more_in_line(inner.reorderable().beneath(), before);
        unlock(inner, held);
    });
    assert_eq!(*order.lock().expect("no panic"), ["big", "little"]);
}

#[test]
fn a_thread_that_is_not_willing_any_more() {
    let (lock, willing) = (&Reorderable::<Mcs>::new(), &AtomicBool::new(true));
    lock.set_window_max(Some(FOR_EVER));
    let (held, asked) = (lock.lock_immediately(), &AtomicBool::new(false));
    let before = lock.beneath().last_in_line();
    thread::scope(|scope| {
        scope.spawn(move || {
            let is_willing = || {
                asked.store(true, Ordering::Relaxed);
                willing.load(Ordering::Relaxed)
            };
            unlock(lock, lock.lock_reorder_while(FOR_EVER, is_willing));
        });
        until("a question", || asked.load(Ordering::Relaxed));
        assert_eq!(lock.beneath().last_in_line(), before, "it stands by");
        willing.store(false, Ordering::Relaxed);
        until("one more in line", || lock.beneath().last_in_line() != before);
        unlock(lock, held);
    });
}

/// Only little threads use the lock: they have no big one to stand by for.
#[test]
fn a_thread_among_equals() {
    let lock = &Asl::over(Mcs::new());
    lock.set_window_max(Some(FOR_EVER));
    thread::scope(|scope| {
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            let held = lock.lock();
            let before = lock.reorderable().beneath().last_in_line();
            thread::scope(|scope| {
                scope.spawn(move || {
                    set_class_of_this_thread(Some(Class::Little));
                    unlock(lock, lock.lock());
                });
                await_one_more_in_line(lock.reorderable().beneath(), before);
                unlock(lock, held);
            });
        });
    });
}
