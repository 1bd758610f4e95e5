//! The reorderable lock over the locks that are compared with, under loom.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_loom;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/reorder.rs"]
mod reorder;

use baselines_loom::lock::{LibaslOver, McsPark, Shfl, Ticket};
use common::{check_no_more, spawn};
use manx::lock::{FutexMutex, Mcs, RawLock};
use reorder::{Guarded, one_stands_by, two_stand_by};

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
fn two_stand_by_for_different_windows() {
    two_stand_by::<McsPark>([1, 400]);
}

#[test]
fn a_little_one_is_in_line_after_its_window() {
    reorder::a_little_one_is_in_line_after_its_window::<Ticket>();
}

/// One polls by LibASL's printed rule, for windows of no look, of one and of several, while the
/// other takes the lock twice.
fn one_polls<L: RawLock + 'static, const SLEEPS: bool>() {
    for window_ns in [0, 1, 12_000] {
        check_no_more(3, move || {
            let guarded = Guarded::<LibaslOver<L, SLEEPS>>::new();
            let other = spawn(&guarded, move |guarded| {
                let held = guarded.lock.lock_reorder(window_ns);
                guarded.add();
                // SAFETY: just locked.
                unsafe { guarded.lock.unlock(held) };
            });
            guarded.lock_and_add();
            guarded.lock_and_add();
            other.join().unwrap();
            guarded.assert_done(3);
        });
    }
}

#[test]
fn libasl_as_printed() {
    one_polls::<Mcs, false>();
    one_polls::<FutexMutex, true>();
}
