//! No two threads are in a critical section together, also while a thread that cannot be outranked
//! takes the CPUs away from holders and waiters.

#[path = "../../../crates/manx/tests/common/hog.rs"]
mod hog;
#[path = "../../../crates/manx/tests/common/turns.rs"]
mod turns;

use baselines::lock::{McsPark, MutableLock, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas};
use hog::beside_a_hog;
use manx::lock::Asl;
use turns::{FEW, MANY, Windows, take_turns};

#[test]
fn each_is_alone_inside() {
    take_turns::<Tas>(MANY);
    take_turns::<Ttas>(MANY);
    take_turns::<MutableLock>(MANY);
    take_turns::<Parked>(MANY);
    take_turns::<SpinFutex>(MANY);
    take_turns::<McsPark>(MANY / 10);
    take_turns::<Ticket>(FEW);
    take_turns::<Shfl>(FEW);
    take_turns::<Shfl<1>>(FEW);
}

#[test]
fn each_is_alone_inside_while_cpus_are_taken_away() {
    beside_a_hog(|| {
        take_turns::<Tas>(MANY);
        take_turns::<Ttas>(MANY);
        take_turns::<MutableLock>(MANY);
        take_turns::<Parked>(MANY);
        take_turns::<SpinFutex>(MANY);
        take_turns::<McsPark>(MANY / 10);
        take_turns::<Ticket>(FEW);
        take_turns::<Shfl>(FEW);
    });
}

#[test]
fn each_is_alone_inside_where_some_stand_by() {
    take_turns::<Windows<McsPark>>(MANY / 10);
    take_turns::<Windows<Ticket>>(FEW);
    take_turns::<Windows<Shfl>>(FEW);
    take_turns::<Asl<McsPark>>(MANY / 10);
    take_turns::<Asl<Ticket>>(FEW);
    take_turns::<Asl<Shfl>>(FEW);
}
