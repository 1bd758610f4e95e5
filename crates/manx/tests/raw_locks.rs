//! What every lock of the room does.

#[path = "common/locks.rs"]
mod locks;

use locks::{NotSendable, Sendable};
use manx::lock::{Asl, FutexMutex, Mcs, QueueHeld, RawLock, RawMutex, Reorderable};
use std::thread;

locks::every_lock! {
    mcs: Mcs;
    futex_mutex: FutexMutex;
    default_mutex: RawMutex;
    reorderable_mcs: Reorderable<Mcs>;
    reorderable_futex: Reorderable<FutexMutex>;
    asl_mcs: Asl<Mcs>;
    asl_futex: Asl<FutexMutex>;
}

#[test]
fn names_differ() {
    let mut names = [Mcs::NAME, FutexMutex::NAME, Reorderable::<Mcs>::NAME, Asl::<Mcs>::NAME];
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, other| one < other), "{names:?}");
}

#[test]
fn a_place_in_a_queue_stays_in_its_thread() {
    const { assert!(!Sendable::<QueueHeld>::YES) };
    const { assert!(!Sendable::<lock_api::MutexGuard<'static, Mcs, u32>>::YES) };
    // The other one holds nothing that is a thread's.
    const { assert!(Sendable::<lock_api::MutexGuard<'static, FutexMutex, u32>>::YES) };
}

#[test]
fn a_lock_without_state_of_its_thread_may_be_unlocked_in_another_one() {
    let mutex = lock_api::Mutex::<FutexMutex, u32>::new(0);
    let guard = mutex.lock();
    thread::scope(|scope| scope.spawn(move || drop(guard)).join().expect("it unlocks"));
    assert!(!mutex.is_locked());
}
