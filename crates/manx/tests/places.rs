//! Places in queues are used again, and none is left behind.

#[path = "common/places.rs"]
mod places;

use manx::lock::Mcs;
use places::none_is_left_behind;

#[test]
fn of_the_mcs_lock() {
    none_is_left_behind::<Mcs>();
}
