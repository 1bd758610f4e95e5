//! The reorderable lock under loom: one stands by while others take the lock, for every order of steps.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after so many the one that
//! stands by is in line. Loom reports an execution that does not end.

use loom::sync::Arc;
use loom::thread;
use manx_loom::cpu::{Class, set_class_of_this_thread};
use manx_loom::lock::{Asl, FutexMutex, Mcs, McsPark, RawLock, Reorderable, Ticket};
use platform::cell::UnsafeCell;

struct Guarded<L> {
    lock: Reorderable<L>,
    number: UnsafeCell<u32>,
}

// SAFETY: the number is used by holders of the lock only; loom reports it if that is not enough.
unsafe impl<L: RawLock> Sync for Guarded<L> {}

impl<L: RawLock> Guarded<L> {
    fn add(&self, window_ns: u64) {
        let held = self.lock.lock_reorder(window_ns);
        // SAFETY: held.
        self.number.with_mut(|number| unsafe { *number += 1 });
        // SAFETY: just locked.
        unsafe { self.lock.unlock(held) };
    }
}

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.max_branches = 10_000;
    builder.check(test);
}

/// One stands by for these windows while the other takes the lock twice.
fn one_stands_by<L: RawLock + 'static>() {
    for window_ns in [0, 1, 300] {
        check(move || {
            let lock = Reorderable::over(L::new());
            let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
            let other = Arc::clone(&guarded);
            let other = thread::spawn(move || other.add(window_ns));
            guarded.add(0);
            guarded.add(0);
            other.join().unwrap();
            assert!(!guarded.lock.is_locked());
            // SAFETY: the other one has ended.
            assert_eq!(guarded.number.with(|number| unsafe { *number }), 3);
        });
    }
}

#[test]
fn over_the_ticket_lock() {
    one_stands_by::<Ticket>();
}

#[test]
fn over_the_mcs_lock() {
    one_stands_by::<Mcs>();
}

#[test]
fn over_the_mcs_lock_with_parking() {
    one_stands_by::<McsPark>();
}

#[test]
fn over_the_futex_mutex() {
    one_stands_by::<FutexMutex>();
}

/// The holder gives the lock back only once the little one stands in line: if its window did not end, this would not.
#[test]
fn a_little_one_is_in_line_after_its_window() {
    use manx_loom::lock::Fifo;
    check(|| {
        let lock = Arc::new(Asl::over(Ticket::new()));
        lock.set_window_ns_max(Some(300));
        lock.lock();
        let before = lock.reorderable().beneath().last_in_line();
        let other = thread::spawn({
            let lock = Arc::clone(&lock);
            move || {
                set_class_of_this_thread(Some(Class::Little));
                lock.lock();
                // SAFETY: just locked.
                unsafe { lock.unlock(()) };
            }
        });
        while lock.reorderable().beneath().last_in_line() == before {
            platform::thread::yield_now();
        }
        // SAFETY: locked above.
        unsafe { lock.unlock(()) };
        other.join().unwrap();
        assert!(!lock.is_locked());
    });
}
