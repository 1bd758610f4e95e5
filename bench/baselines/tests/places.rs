//! Places in queues are used again, and none is left behind.

#[path = "../../../crates/manx/tests/common/places.rs"]
mod places;

use baselines::lock::McsPark;
use places::none_is_left_behind;

/// One test, because the numbers are the process'.
#[test]
fn of_the_queues() {
    none_is_left_behind::<McsPark>();
}
