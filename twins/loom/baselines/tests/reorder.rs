//! The reorderable lock over the locks that are compared with, under loom.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_loom;

#[path = "../../manx/tests/common/reorder.rs"]
mod reorder;

use baselines_loom::lock::{Cna, McsPark, Shfl, Ticket};
use loom::sync::Arc;
use loom::thread;
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::{Asl, Fifo, RawLock};
use reorder::{check, one_stands_by, two_stand_by};

#[test]
fn over_the_ticket_lock() {
    one_stands_by::<Ticket>();
}

#[test]
fn over_the_mcs_lock_with_parking() {
    one_stands_by::<McsPark>();
}

#[test]
fn over_the_shuffle_lock() {
    one_stands_by::<Shfl>();
}

#[test]
fn over_the_numa_aware_lock() {
    one_stands_by::<Cna>();
}

#[test]
fn two_stand_by_for_different_windows() {
    two_stand_by::<McsPark>([1, 400]);
    two_stand_by::<Cna>([1, 400]);
}

/// The holder gives the lock back only once the little one stands in line: if its window did not
/// end, this would not.
#[test]
fn a_little_one_is_in_line_after_its_window() {
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
