//! What holds for the reorderable lock and for [`Asl`] over every lock beneath that is first in,
//! first out.
//!
//! The order comes from events, never from how long something takes: a window either is 0, or ends
//! only after what the test waits for has happened, or is one whose end the test waits for. The
//! tests of the package `baselines` use this, too.

use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, RawLock, Reorderable};
use manx::slo;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use testing::until;

/// A window that no test outlasts.
pub const FOR_EVER: Duration = Duration::MAX;

pub fn unlock<L: RawLock>(lock: &L, held: L::Held) {
    // SAFETY: `held` comes from this lock, and is given back once.
    unsafe { lock.unlock(held) };
}

pub fn await_one_more_in_line<L: Fifo>(lock: &L, before: usize) {
    until("one more in line", || lock.last_in_line() != before);
}

/// One thread after another stands in line with a window of 0, and they are let in so.
pub fn no_window_is_the_order_beneath<L: Fifo>() {
    let (lock, order) = (&Reorderable::over(L::new()), &Mutex::new(Vec::new()));
    let held = lock.lock_reorder(Duration::ZERO);
    thread::scope(|scope| {
        for number in 0..6 {
            let before = lock.beneath().last_in_line();
            scope.spawn(move || {
                let held = lock.lock_reorder(Duration::ZERO);
                order.lock().expect("no panic").push(number);
                unlock(lock, held);
            });
            await_one_more_in_line(lock.beneath(), before);
        }
        unlock(lock, held);
    });
    assert_eq!(*order.lock().expect("no panic"), [0, 1, 2, 3, 4, 5]);
}

/// A little thread comes first and a big one second. The little one stands by, so the big one is
/// let in before it, and the little one finds the lock free afterwards.
pub fn a_big_one_overtakes<L: Fifo>() {
    let lock = &Asl::over(L::new());
    lock.set_window_max(Some(FOR_EVER));
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
        until("the little thread", || came.load(Ordering::Relaxed));
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

/// The window ends while the lock is held: the thread that stood by comes to stand in line, and is
/// let in before a later one.
pub fn a_thread_that_stood_by_gets_in_line<L: Fifo>() {
    for window in [1, 10_000, 100_000, 2_000_000].map(Duration::from_nanos) {
        let (lock, order) = (&Asl::over(L::new()), &Mutex::new(Vec::new()));
        lock.set_window_max(Some(window));
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
        assert_eq!(*order.lock().expect("no panic"), [Class::Little, Class::Big], "{window:?}");
    }
}

/// Little threads in an epoch that has to end at once, and big ones, come one after the other and
/// are let in so, though no window would ever end.
pub fn an_slo_of_nothing_is_the_order_beneath<L: Fifo>() {
    const EPOCH: u64 = 9;
    let (lock, order) = (&Asl::over(L::new()), &Mutex::new(Vec::new()));
    lock.set_window_max(Some(FOR_EVER));
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

/// Each thread of a ring holds one lock while it takes the next one, from a little core or a big
/// one, in an order that cannot deadlock. The sums say that no two threads were inside together.
pub fn locks_are_nested<L: RawLock>() {
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
    lock.set_window_max(Some(Duration::from_micros(100)));
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

/// A try takes a free lock from any core and in any epoch, takes no held one, and does not stand by
/// for it.
pub fn a_try_ends_at_once_from_a_little_core<L: RawLock>() {
    let lock = &Asl::over(L::new());
    lock.set_window_max(Some(FOR_EVER));
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
