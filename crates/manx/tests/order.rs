//! Locks that are first in, first out: the thread that comes first is let in first.

#[path = "common/order.rs"]
mod order;

use manx::lock::Mcs;
use order::first_in_first_out;

#[test]
fn the_mcs_lock_lets_in_by_arrival() {
    first_in_first_out::<Mcs>();
}
