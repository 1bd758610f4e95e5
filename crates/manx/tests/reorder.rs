//! Who overtakes whom: one that stands by is passed by those in line, and stands in line itself when its window is over.
//!
//! The order comes from events, never from how long something takes: a window either is 0, or ends only after what the
//! test waits for has happened, or is one whose end the test waits for.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Cna, Fifo, FutexMutex, Mcs, McsPark, RawLock, Reorderable, Ticket};
use manx::slo;
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
    assert_eq!(lock.window_ns_max(), slo::WINDOW_NS_MAX);
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
    assert_eq!(lock.window_ns_max(), slo::WINDOW_NS_MAX);
}

/// Little threads in an epoch that has to end at once, and big ones, come one after the other and are let in so, though no window
/// would ever end.
fn an_slo_of_nothing_is_the_order_beneath<L: Fifo>() {
    const EPOCH: u64 = 9;
    let (lock, order) = (&Asl::over(L::new()), &Mutex::new(Vec::new()));
    lock.set_window_ns_max(Some(FOR_EVER_NS));
    let line = lock.reorderable().beneath();
    let held = lock.lock();
    thread::scope(|scope| {
        for number in 0..6 {
            let before = line.last_in_line();
            scope.spawn(move || {
                set_class_of_this_thread(Some(if number % 2 == 0 { Class::Little } else { Class::Big }));
                // One was too late, as all of them are, before the one in which the lock is taken.
                for ends in [true, false] {
                    slo::start(EPOCH);
                    assert_eq!(slo::window_ns(), Some(0));
                    if ends {
                        slo::end(EPOCH, 0);
                    }
                }
                let held = lock.lock();
                order.lock().expect("no panic").push(number);
                unlock(lock, held);
                slo::end(EPOCH, 0);
            });
            await_one_more_in_line(line, before);
        }
        unlock(lock, held);
    });
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn in_an_epoch_with_an_slo_of_nothing_the_order_is_that_of_the_lock_beneath() {
    an_slo_of_nothing_is_the_order_beneath::<Ticket>();
    an_slo_of_nothing_is_the_order_beneath::<Mcs>();
    an_slo_of_nothing_is_the_order_beneath::<McsPark>();
}

/// The window is that of the epoch that the thread is in when it comes, inner epochs and their ends included.
#[test]
fn the_innermost_epochs_window_rules() {
    const OUTER: u64 = 1;
    const INNER: u64 = 2;
    let lock = &Asl::<Mcs>::new();
    lock.set_window_ns_max(Some(FOR_EVER_NS));
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

/// Each thread of a ring holds one lock while it takes the next one, from a little core or a big one, in an order that cannot
/// deadlock. The sums say that nobody was inside with somebody else.
fn locks_are_nested<L: RawLock>() {
    const THREADS: usize = 4;
    const ROUNDS: u32 = 20;
    let locks = &[0, 1, 2].map(|_| counted(Asl::over(L::new())));
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                set_class_of_this_thread(Some(if number % 2 == 0 { Class::Little } else { Class::Big }));
                for round in 0..ROUNDS {
                    let (first, second) = ([0, 0, 1][round as usize % 3], [1, 2, 2][round as usize % 3]);
                    locks[first].add(|| locks[second].add(|| ()));
                }
            });
        }
    });
    let sum: u32 = locks.iter().map(Counted::total).sum();
    assert_eq!(sum, 2 * THREADS as u32 * ROUNDS);
    assert!(locks.iter().all(|counted| !counted.lock.is_locked()));
}

/// A lock and a number that it guards.
struct Counted<L> {
    lock: Asl<L>,
    number: platform::cell::UnsafeCell<u32>,
}

// SAFETY: the number is used by holders only.
unsafe impl<L: RawLock> Sync for Counted<L> {}

fn counted<L: RawLock>(lock: Asl<L>) -> Counted<L> {
    lock.set_window_ns_max(Some(100_000));
    Counted { lock, number: platform::cell::UnsafeCell::new(0) }
}

impl<L: RawLock> Counted<L> {
    /// Adds 1 to the number, in two steps with `inside` between.
    fn add(&self, inside: impl FnOnce()) {
        let held = self.lock.lock();
        // SAFETY: held.
        let before = self.number.with(|number| unsafe { number.read_volatile() });
        inside();
        // SAFETY: held.
        self.number.with_mut(|number| unsafe { number.write_volatile(before + 1) });
        unlock(&self.lock, held);
    }

    fn total(&self) -> u32 {
        let held = self.lock.lock();
        // SAFETY: held.
        let number = self.number.with(|number| unsafe { *number });
        unlock(&self.lock, held);
        number
    }
}

/// Others wait for who holds a lock, so it does not stand by for a second one; once it holds none it does again.
#[test]
fn who_holds_such_a_lock_does_not_stand_by_for_another() {
    let (outer, inner) = (&Asl::<Mcs>::new(), &Asl::<Mcs>::new());
    outer.set_window_ns_max(Some(FOR_EVER_NS));
    inner.set_window_ns_max(Some(FOR_EVER_NS));
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
fn locks_nest() {
    locks_are_nested::<FutexMutex>();
    locks_are_nested::<McsPark>();
    locks_are_nested::<Cna>();
}

/// Who tries takes a free lock from whatever core and in whatever epoch, takes no held one, and does not stand by for it.
#[test]
fn a_try_ends_at_once_from_a_little_core() {
    fn tried<L: RawLock>() {
        let lock = &Asl::over(L::new());
        lock.set_window_ns_max(Some(FOR_EVER_NS));
        let try_it = || {
            thread::scope(|scope| {
                let tries = scope.spawn(|| {
                    set_class_of_this_thread(Some(Class::Little));
                    slo::start(1);
                    let held = lock.try_lock();
                    let had = held.map(|held| unlock(lock, held)).is_some();
                    slo::abandon(1);
                    had
                });
                tries.join().expect("a try ends")
            })
        };
        assert!(try_it());
        let held = lock.lock();
        assert!(!try_it());
        unlock(lock, held);
        assert!(try_it());
    }
    tried::<Mcs>();
    tried::<FutexMutex>();
    tried::<Cna>();
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
