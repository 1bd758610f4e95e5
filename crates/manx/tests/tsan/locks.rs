//! The locks of the room: a holder sees what the holder before it wrote.

use super::turns::counts_alone;
use manx::lock::{FutexMutex, Mcs, RawMutex};

#[test]
fn every_lock_orders_memory() {
    counts_alone::<Mcs>();
    counts_alone::<FutexMutex>();
    counts_alone::<RawMutex>();
}
