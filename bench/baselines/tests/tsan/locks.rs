//! The FIFO and unfair locks: a holder sees what the holder before it wrote.

use super::turns::counts_alone;
use baselines::lock::{McsPark, MutableLock, Parked, Shfl, SpinFutex, Tas, Ticket, Ttas};

#[test]
fn every_lock_orders_memory() {
    counts_alone::<Tas>();
    counts_alone::<Ttas>();
    counts_alone::<Ticket>();
    counts_alone::<McsPark>();
    counts_alone::<MutableLock>();
    counts_alone::<Parked>();
    counts_alone::<SpinFutex>();
    counts_alone::<Shfl<1>>();
}
