//! The reorderable lock and `Asl` over the locks that are compared with: which thread overtakes
//! which.

#[path = "../../../crates/manx/tests/common/beneath.rs"]
mod beneath;

use baselines::lock::{McsPark, Ticket};
use beneath::{
    a_big_one_overtakes, a_thread_that_stood_by_gets_in_line, a_try_ends_at_once_from_a_little_core,
    an_slo_of_nothing_is_the_order_beneath, locks_are_nested, no_window_is_the_order_beneath,
};

#[test]
fn without_a_window_the_order_is_that_of_the_lock_beneath() {
    no_window_is_the_order_beneath::<Ticket>();
    no_window_is_the_order_beneath::<McsPark>();
}

#[test]
fn a_big_one_overtakes_a_little_one_that_stands_by() {
    a_big_one_overtakes::<Ticket>();
    a_big_one_overtakes::<McsPark>();
}

#[test]
fn one_that_stood_by_stands_in_line_when_the_window_is_over() {
    a_thread_that_stood_by_gets_in_line::<Ticket>();
    a_thread_that_stood_by_gets_in_line::<McsPark>();
}

#[test]
fn in_an_epoch_with_an_slo_of_nothing_the_order_is_that_of_the_lock_beneath() {
    an_slo_of_nothing_is_the_order_beneath::<Ticket>();
    an_slo_of_nothing_is_the_order_beneath::<McsPark>();
}

#[test]
fn locks_nest() {
    locks_are_nested::<McsPark>();
}

#[test]
fn a_try_from_a_little_core() {
    a_try_ends_at_once_from_a_little_core::<McsPark>();
}
