//! The FIFO and unfair locks under randomized schedules: more threads and rounds than loom can try.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/baselines/tests`). A lock that lets two in, forgets a waiter, or never ends is
//! found.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_shuttle;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/locks.rs"]
mod locks;

use baselines_shuttle::lock::{
    Libasl, LibaslBlocking, McsPark, MutableLock, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas,
};
use locks::{first_in_first_out, several_at_once};
use manx::lock::{Asl, Fifo};
use platform::site;

locks::every_lock! {
    tas: Tas;
    ttas: Ttas;
    ticket: Ticket;
    mcs_park: McsPark;
    mutable_lock: MutableLock;
    parked: Parked;
    spin_futex: SpinFutex;
    shfl: Shfl<2>;
    shfl_that_alternates: Shfl<1>;
    asl_ticket: Asl<Ticket>;
    asl_mcs_park: Asl<McsPark>;
    asl_shfl: Asl<Shfl>;
    libasl: Libasl;
    libasl_blocking: LibaslBlocking;
}

#[test]
fn the_ticket_lock_lets_in_by_arrival() {
    first_in_first_out::<Ticket>(site!(), Fifo::last_in_line);
}

#[test]
fn the_mcs_lock_with_parking_lets_in_by_arrival() {
    first_in_first_out::<McsPark>(site!(), Fifo::last_in_line);
}

#[test]
fn the_shuffle_lock_lets_in_by_arrival_where_there_is_one_class() {
    first_in_first_out::<Shfl>(site!(), Shfl::last_in_line);
}

#[test]
fn places_of_several_queues_are_given_back_in_any_order() {
    several_at_once::<McsPark>(site!());
}
