//! Threads that do not stand by, though they run on a little core.
//!
//! A thread that stands by is in no line, and its windows here outlast every test: so a thread that
//! comes to stand in line did not stand by.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, Mcs, RawLock, Reorderable};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const FOR_EVER_NS: u64 = u64::MAX;

fn unlock<L: RawLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and is given back once.
    unsafe { lock.unlock(held) };
}

fn await_one_more_in_line(lock: &Asl<Mcs>, before: usize) {
    while lock.reorderable().beneath().last_in_line() == before {
        thread::yield_now();
    }
}

#[test]
fn who_holds_another_such_lock() {
    let (outer, inner) = (&Asl::over(Mcs::new()), &Asl::over(Mcs::new()));
    inner.set_window_ns_max(Some(FOR_EVER_NS));
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
            await_one_more_in_line(inner, before);
            unlock(inner, held);
        });
    }
}

#[test]
fn who_has_given_the_other_one_back_stands_by_again() {
    let (outer, inner) = (&Asl::over(Mcs::new()), &Asl::over(Mcs::new()));
    inner.set_window_ns_max(Some(FOR_EVER_NS));
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
        while !came.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        // A big one stands in line, and no other thread ever does.
        scope.spawn(move || {
            let held = inner.lock();
            order.lock().expect("no panic").push("big");
            unlock(inner, held);
        });
        await_one_more_in_line(inner, before);
        unlock(inner, held);
    });
    assert_eq!(*order.lock().expect("no panic"), ["big", "little"]);
}

#[test]
fn who_is_not_willing_any_more() {
    let (lock, willing) = (&Reorderable::<Mcs>::new(), &AtomicBool::new(true));
    lock.set_window_ns_max(Some(FOR_EVER_NS));
    let (held, asked) = (lock.lock_immediately(), &AtomicBool::new(false));
    let before = lock.beneath().last_in_line();
    thread::scope(|scope| {
        scope.spawn(move || {
            let is_willing = || {
                asked.store(true, Ordering::Relaxed);
                willing.load(Ordering::Relaxed)
            };
            unlock(lock, lock.lock_reorder_while(FOR_EVER_NS, is_willing));
        });
        while !asked.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        assert_eq!(lock.beneath().last_in_line(), before, "it stands by");
        willing.store(false, Ordering::Relaxed);
        while lock.beneath().last_in_line() == before {
            thread::yield_now();
        }
        unlock(lock, held);
    });
}

/// Only little threads use the lock: they have no big one to stand by for.
#[test]
fn who_is_among_equals() {
    let lock = &Asl::over(Mcs::new());
    lock.set_window_ns_max(Some(FOR_EVER_NS));
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
                await_one_more_in_line(lock, before);
                unlock(lock, held);
            });
        });
    });
}
