//! The locks of the room under randomized schedules: more threads and rounds than loom can try.
//!
//! Shuttle models sequentially consistent memory only; the orderings are loom's business
//! (`twins/loom/manx/tests`). A lock that lets two in, forgets a waiter, or never ends is found.

mod common;
#[path = "common/locks.rs"]
mod locks;

use locks::{all_take_turns, first_in_first_out, several_at_once};
use manx_shuttle::lock::{Asl, Fifo, FutexMutex, Mcs, RawLock, RawMutex};
use platform::site;

locks::every_lock! {
    mcs: Mcs;
    futex_mutex: FutexMutex;
    default_mutex: RawMutex;
    asl_mcs: Asl<Mcs>;
    asl_futex: Asl<FutexMutex>;
}

#[test]
fn the_mcs_lock_lets_in_by_arrival() {
    first_in_first_out::<Mcs>(site!(), Fifo::last_in_line);
}

#[test]
fn places_of_several_queues_are_given_back_in_any_order() {
    several_at_once::<Mcs>(site!());
}

#[test]
#[should_panic(expected = "while another thread")]
fn a_lock_that_lets_two_in_would_be_found() {
    struct Open;
    // SAFETY: it is not: that is the point. The cell reports threads that use it at the same time.
    unsafe impl RawLock for Open {
        type Held = ();
        const NAME: &'static str = "open";
        platform::initial! { Open }
        fn lock(&self) {}
        fn try_lock(&self) -> Option<()> {
            Some(())
        }
        unsafe fn unlock(&self, (): ()) {}
        fn is_locked(&self) -> bool {
            false
        }
    }
    all_take_turns::<Open>(site!());
}
