//! The locks that manx's are compared with do what every lock does, by themselves and beneath locks
//! that stand on others.

#[path = "../../../crates/manx/tests/common/locks.rs"]
mod locks;

use baselines::lock::{
    Libasl, LibaslBlocking, McsPark, MutableLock, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas,
};
use locks::{NotSendable, Sendable};
use manx::lock::{Asl, FutexMutex, Mcs, RawLock, Reorderable};
use std::thread;

locks::every_lock! {
    tas: Tas;
    ttas: Ttas;
    ticket: Ticket;
    mcs_park: McsPark;
    mutable_lock: MutableLock;
    parked: Parked;
    spin_futex: SpinFutex;
    shfl: Shfl;
    shfl_that_alternates: Shfl<1>;
    libasl: Libasl;
    libasl_blocking: LibaslBlocking;
    reorderable_ticket: Reorderable<Ticket>;
    reorderable_mcs_park: Reorderable<McsPark>;
    reorderable_shfl: Reorderable<Shfl>;
    asl_ticket: Asl<Ticket>;
    asl_mcs_park: Asl<McsPark>;
    asl_shfl: Asl<Shfl>;
}

#[test]
fn names_differ_also_from_those_of_manx() {
    let mut names = [
        Tas::NAME,
        Ttas::NAME,
        Ticket::NAME,
        Mcs::NAME,
        McsPark::NAME,
        FutexMutex::NAME,
        MutableLock::NAME,
        Parked::NAME,
        SpinFutex::NAME,
        <Shfl as RawLock>::NAME,
        Libasl::NAME,
        LibaslBlocking::NAME,
        Reorderable::<Mcs>::NAME,
        Asl::<Mcs>::NAME,
    ];
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}

#[test]
fn a_place_in_a_queue_stays_in_its_thread() {
    const { assert!(!Sendable::<lock_api::MutexGuard<'static, McsPark, u32>>::YES) };
    // The others hold nothing that is a thread's.
    const { assert!(Sendable::<lock_api::MutexGuard<'static, Ticket, u32>>::YES) };
}

#[test]
fn a_lock_without_state_of_its_thread_may_be_unlocked_in_another_one() {
    let mutex = lock_api::Mutex::<Ticket, u32>::new(0);
    let guard = mutex.lock();
    thread::scope(|scope| scope.spawn(move || drop(guard)).join().expect("it unlocks"));
    assert!(!mutex.is_locked());
}
