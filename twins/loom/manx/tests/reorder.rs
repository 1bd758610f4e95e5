//! The reorderable lock and the asymmetry-aware one under loom: one stands by while others take the
//! lock, for every order of steps.
//!
//! Time moves with each look at the clock here, so a window is a number of looks, and after that
//! number the thread that stands by is in line. Loom reports an execution that does not end.

mod common;
#[path = "common/reorder.rs"]
mod reorder;

use common::{check_no_more, spawn};
use manx_loom::cpu::{Class, set_class_of_this_thread};
use manx_loom::lock::{Asl, FutexMutex, Mcs, RawLock, Reorderable};
use manx_loom::slo::set_window_ns_of_this_thread;
use reorder::{Guarded, one_stands_by, two_stand_by};
use std::time::Duration;

#[test]
fn over_the_mcs_lock() {
    one_stands_by::<Mcs>();
}

#[test]
fn over_the_futex_mutex() {
    one_stands_by::<FutexMutex>();
}

#[test]
fn two_stand_by_for_the_same_window() {
    two_stand_by::<Mcs>([300, 300]);
    two_stand_by::<FutexMutex>([300, 300]);
}

#[test]
fn two_stand_by_for_different_windows() {
    two_stand_by::<Mcs>([1, 400]);
}

/// A big one and a little one whose epoch has this window; each takes the lock twice.
fn in_an_epoch<L: RawLock + 'static>() {
    for window_ns in [Some(0), Some(300), Some(12_000), None] {
        check_no_more(3, move || {
            let lock = Asl::over(L::new());
            lock.set_window_max(Some(Duration::from_micros(12)));
            let guarded = Guarded::over(lock);
            guarded.lock_and_add();
            let other = spawn(&guarded, move |guarded| {
                set_class_of_this_thread(Some(Class::Little));
                set_window_ns_of_this_thread(window_ns);
                guarded.lock_and_add();
                guarded.lock_and_add();
            });
            guarded.lock_and_add();
            guarded.lock_and_add();
            other.join().unwrap();
            guarded.assert_done(5);
        });
    }
}

#[test]
fn in_an_epoch_over_the_mcs_lock() {
    in_an_epoch::<Mcs>();
}

#[test]
fn in_an_epoch_over_the_futex_mutex() {
    in_an_epoch::<FutexMutex>();
}

/// A lock that is never free, and notes when a thread comes to stand in line.
struct Occupied(std::sync::atomic::AtomicU64);

// SAFETY: nothing is protected.
unsafe impl RawLock for Occupied {
    type Held = ();
    const NAME: &'static str = "occupied";
    platform::initial! { Occupied(std::sync::atomic::AtomicU64::new(0)) }

    fn lock(&self) {
        self.0.store(platform::clock::now_ns(), std::sync::atomic::Ordering::Relaxed);
    }

    fn try_lock(&self) -> Option<()> {
        None
    }

    unsafe fn unlock(&self, (): ()) {}

    fn is_locked(&self) -> bool {
        true
    }
}

/// Time is counted here, so the bound is exact: a thread that stands by is in line when its window
/// is over, and a few looks at the clock later.
#[test]
fn a_thread_that_stands_by_is_in_line_at_the_end_of_its_window_to_the_look() {
    const LOOKS_NS: u64 = 100;
    for window_ns in [0, 1, 300, 20_000, 69_999, 70_001, 1_000_000, 99_999_999, u64::MAX] {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 100_000;
        builder.check(move || {
            let lock = Reorderable::<Occupied>::new();
            // A thread has passed, so the lock is in use.
            let _ = lock.lock_immediately();
            let began_ns = platform::clock::now_ns();
            let _ = lock.lock_reorder(Duration::from_nanos(window_ns));
            let waited_ns = lock.beneath().0.load(std::sync::atomic::Ordering::Relaxed) - began_ns;
            let window_ns = window_ns.min(platform::clock::duration_ns(manx_loom::slo::WINDOW_MAX));
            assert!((window_ns..=window_ns + LOOKS_NS).contains(&waited_ns), "{waited_ns} of {window_ns}");
        });
    }
}

#[test]
fn a_little_one_is_in_line_after_its_window() {
    reorder::a_little_one_is_in_line_after_its_window::<Mcs>();
}
