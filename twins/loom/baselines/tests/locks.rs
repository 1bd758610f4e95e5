//! The FIFO and unfair locks under loom: every order of steps that the memory model allows. What
//! each lock does of its own has a test beside the tests that all of them pass.

// The shared tests call the twin of manx by its own name.
extern crate manx as manx_loom;

#[path = "../../manx/tests/common/mod.rs"]
mod common;
#[path = "../../manx/tests/common/locks.rs"]
mod locks;

use baselines_loom::lock::{
    Libasl, LibaslBlocking, McsPark, MutableLock, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas,
};
use common::{check_no_more, join, spawn};
use locks::{Guarded, places_of_two_queues_are_given_back_in_any_order};
use manx::cpu::{Class, set_class_of_this_thread};
use manx::lock::RawLock;

locks::every_lock! {
    tas: Tas;
    ttas: Ttas;
    ticket: Ticket;
    mcs_park: McsPark;
    mutable_lock: MutableLock;
    parked: Parked;
    spin_futex: SpinFutex;
    shfl: Shfl;
    libasl: Libasl;
    libasl_blocking: LibaslBlocking;
}

locks::every_queue! {
    mcs_park: McsPark, 3;
    mutable_lock: MutableLock, 2;
    parked: Parked, 2;
    shfl: Shfl, 3;
    shfl_that_alternates: Shfl<1>, 3;
}

#[test]
fn the_shuffle_lock_moves_one_of_four_and_loses_nobody() {
    // While this thread holds the lock, a little one and two big ones come, in any order; the head
    // may find a big one behind a little one, last in the queue or with another one on its way to
    // stand behind it.
    check_no_more(1, || {
        let guarded = Guarded::<Shfl<2>>::new();
        guarded.lock.lock();
        let others = [Class::Big, Class::Little, Class::Big].map(|class| {
            spawn(&guarded, move |guarded| {
                set_class_of_this_thread(Some(class));
                guarded.lock_and_add();
            })
        });
        guarded.add();
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(()) };
        join(others);
        guarded.assert_done(4);
    });
}

#[test]
fn a_waiter_behind_one_that_was_the_last_is_not_lost() {
    // This thread comes back and stands behind a little one, from behind which the head has moved a
    // big one, or is about to.
    check_no_more(1, || {
        let guarded = Guarded::<Shfl<2>>::new();
        guarded.lock.lock();
        let others = [Class::Big, Class::Little, Class::Big].map(|class| {
            spawn(&guarded, move |guarded| {
                set_class_of_this_thread(Some(class));
                guarded.lock_and_add();
            })
        });
        // SAFETY: locked above.
        unsafe { guarded.lock.unlock(()) };
        guarded.lock_and_add();
        join(others);
        guarded.assert_done(4);
    });
}

#[test]
fn places_of_queues_are_given_back_in_any_order() {
    places_of_two_queues_are_given_back_in_any_order::<McsPark>();
}
