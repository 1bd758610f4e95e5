//! The reorderable lock over the locks that are compared with, under loom.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_loom;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/reorder.rs"]
mod reorder;

use baselines_loom::lock::{McsPark, Shfl, Ticket};
use reorder::{one_stands_by, two_stand_by};

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
