//! Who overtakes whom: one that stands by is passed by those in line, and stands in line itself when its window is over.
//!
//! The order comes from events, never from how long something takes: a window either is 0, or ends only after what the
//! test waits for has happened, or is one whose end the test waits for.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, Mcs, McsPark, RawLock, Reorderable, Ticket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A window that no test outlasts.
const FOR_EVER_NS: u64 = u64::MAX;

fn unlock<L: RawLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and is given back once.
    unsafe { lock.unlock(held) };
}

fn await_one_more_in_line<L: Fifo>(lock: &L, before: usize) {
    while lock.last_in_line() == before {
        thread::yield_now();
    }
}

/// One thread after another stands in line with a window of 0, and they are let in so.
fn no_window_is_the_order_beneath<L: Fifo>() {
    let (lock, order) = (&Reorderable::over(L::new()), &Mutex::new(Vec::new()));
    let held = lock.lock_reorder(0);
    thread::scope(|scope| {
        for number in 0..6 {
            let before = lock.beneath().last_in_line();
            scope.spawn(move || {
                let held = lock.lock_reorder(0);
                order.lock().expect("no panic").push(number);
                unlock(lock, held);
            });
            await_one_more_in_line(lock.beneath(), before);
        }
        unlock(lock, held);
    });
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn without_a_window_the_order_is_that_of_the_lock_beneath() {
    no_window_is_the_order_beneath::<Ticket>();
    no_window_is_the_order_beneath::<Mcs>();
    no_window_is_the_order_beneath::<McsPark>();
}

/// A little thread comes first and a big one second. The little one stands by, so the big one is let in before it,
/// and the little one finds the lock free afterwards.
fn a_big_one_overtakes<L: Fifo>() {
    let lock = &Asl::over(L::new());
    lock.set_window_ns_max(Some(FOR_EVER_NS));
    let (order, came) = (&Mutex::new(Vec::new()), &AtomicBool::new(false));
    let held = lock.lock();
    let line = lock.reorderable().beneath();
    thread::scope(|scope| {
        let alone = line.last_in_line();
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Little));
            came.store(true, Ordering::Relaxed);
            let held = lock.lock();
            order.lock().expect("no panic").push("little");
            unlock(lock, held);
        });
        while !came.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        scope.spawn(move || {
            set_class_of_this_thread(Some(Class::Big));
            let held = lock.lock();
            order.lock().expect("no panic").push("big");
            unlock(lock, held);
        });
        // Only the big one ever stands in line.
        await_one_more_in_line(line, alone);
        unlock(lock, held);
    });
    assert_eq!(*order.lock().expect("no panic"), ["big", "little"]);
}

#[test]
fn a_big_one_overtakes_a_little_one_that_stands_by() {
    a_big_one_overtakes::<Ticket>();
    a_big_one_overtakes::<Mcs>();
    a_big_one_overtakes::<McsPark>();
}

/// The window ends while the lock is held: the one that stood by comes to stand in line, and is let in before one
/// that comes later.
fn who_stood_by_gets_in_line<L: Fifo>() {
    for window_ns in [1, 10_000, 100_000, 2_000_000] {
        let (lock, order) = (&Asl::over(L::new()), &Mutex::new(Vec::new()));
        lock.set_window_ns_max(Some(window_ns));
        let line = lock.reorderable().beneath();
        let held = lock.lock();
        thread::scope(|scope| {
            for class in [Class::Little, Class::Big] {
                let before = line.last_in_line();
                scope.spawn(move || {
                    set_class_of_this_thread(Some(class));
                    let held = lock.lock();
                    order.lock().expect("no panic").push(class);
                    unlock(lock, held);
                });
                await_one_more_in_line(line, before);
            }
            unlock(lock, held);
        });
        assert_eq!(*order.lock().expect("no panic"), [Class::Little, Class::Big], "{window_ns}");
    }
}

#[test]
fn who_stood_by_stands_in_line_when_the_window_is_over() {
    who_stood_by_gets_in_line::<Ticket>();
    who_stood_by_gets_in_line::<Mcs>();
    who_stood_by_gets_in_line::<McsPark>();
}

#[test]
fn the_longest_window_bounds_every_other() {
    let lock = &Reorderable::<Mcs>::new();
    assert_eq!(lock.window_ns_max(), manx::lock::reorderable::WINDOW_NS_MAX);
    lock.set_window_ns_max(Some(10_000));
    let held = lock.lock();
    thread::scope(|scope| {
        let before = lock.beneath().last_in_line();
        scope.spawn(move || {
            let held = lock.lock_reorder(FOR_EVER_NS);
            unlock(lock, held);
        });
        await_one_more_in_line(lock.beneath(), before);
        unlock(lock, held);
    });
    lock.set_window_ns_max(None);
    assert_eq!(lock.window_ns_max(), manx::lock::reorderable::WINDOW_NS_MAX);
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
