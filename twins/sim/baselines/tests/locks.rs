//! The locks of papers and peers on simulated machines.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_sim;

#[allow(dead_code, reason = "the package manx-sim uses all of it")]
#[path = "../../manx/tests/common/mod.rs"]
mod common;

use baselines_sim::lock::{Libasl, LibaslBlocking, McsPark, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas};
use common::holds;
use platform::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[test]
fn locks_that_anyone_takes_hold() {
    holds::<Tas>();
    holds::<Ttas>();
    holds::<SpinFutex>();
    holds::<Parked>();
}

#[test]
fn locks_in_the_order_of_arrival_hold() {
    holds::<Ticket>();
    holds::<McsPark>();
}

#[test]
fn locks_that_little_cores_stand_by_at_hold() {
    holds::<Libasl>();
    holds::<LibaslBlocking>();
}

#[test]
fn queues_that_are_shuffled_hold() {
    holds::<Shfl>();
}
