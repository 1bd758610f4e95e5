//! Locks that are first in, first out: the thread that comes first is let in first.

#[path = "../../../crates/manx/tests/common/order.rs"]
mod order;

use baselines::lock::{McsPark, Ticket};
use order::first_in_first_out;

#[test]
fn the_ticket_lock_lets_in_by_arrival() {
    first_in_first_out::<Ticket>();
}

#[test]
fn the_mcs_lock_with_parking_lets_in_by_arrival() {
    first_in_first_out::<McsPark>();
}
