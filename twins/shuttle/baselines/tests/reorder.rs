//! The reorderable lock and the asymmetry-aware one over the locks that are compared with, under
//! randomized schedules.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_shuttle;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/reorder.rs"]
mod reorder;

use baselines_shuttle::lock::{McsPark, Shfl, Ticket};
use platform::site;
use reorder::those_in_line_pass_and_nobody_else;

reorder::over_each_lock! {
    over_the_ticket_lock: Ticket;
    over_the_mcs_lock_with_parking: McsPark;
    over_the_shuffle_lock: Shfl<2>;
}

#[test]
fn over_the_ticket_lock_those_in_line_pass_and_nobody_else() {
    those_in_line_pass_and_nobody_else::<Ticket>(site!());
}

#[test]
fn over_the_mcs_lock_with_parking_those_in_line_pass_and_nobody_else() {
    those_in_line_pass_and_nobody_else::<McsPark>(site!());
}
