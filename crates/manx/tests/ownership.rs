//! No two threads are in a critical section together, also while a thread that cannot be outranked
//! takes the CPUs away from holders and waiters.

#[path = "common/hog.rs"]
mod hog;
#[path = "common/turns.rs"]
mod turns;

use hog::beside_a_hog;
use manx::lock::{Asl, FutexMutex, Mcs, RawMutex};
use turns::{FEW, MANY, Windows, take_turns};

#[test]
fn each_is_alone_inside() {
    take_turns::<FutexMutex>(MANY);
    take_turns::<RawMutex>(MANY);
    take_turns::<Mcs>(FEW);
}

#[test]
fn each_is_alone_inside_while_cpus_are_taken_away() {
    beside_a_hog(|| {
        take_turns::<FutexMutex>(MANY);
        take_turns::<RawMutex>(MANY);
        take_turns::<RawMutex>(MANY);
        take_turns::<Mcs>(FEW);
    });
}

#[test]
fn each_is_alone_inside_where_some_stand_by() {
    take_turns::<Windows<FutexMutex>>(MANY / 10);
    take_turns::<Windows<Mcs>>(FEW);
    take_turns::<Asl<FutexMutex>>(MANY / 10);
    take_turns::<Asl<Mcs>>(FEW);
}
