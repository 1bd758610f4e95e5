//! The reorderable lock and the asymmetry-aware one under randomized schedules.

mod common;
#[path = "common/reorder.rs"]
mod reorder;

use manx_shuttle::lock::{Fifo, FutexMutex, Mcs, RawLock};
use platform::site;
use reorder::those_in_line_pass_and_nobody_else;

reorder::over_each_lock! {
    over_the_mcs_lock: Mcs;
    over_the_futex_mutex: FutexMutex;
}

#[test]
fn over_the_mcs_lock_those_in_line_pass_and_nobody_else() {
    those_in_line_pass_and_nobody_else::<Mcs>(site!());
}

#[test]
#[should_panic(expected = "assertion `left == right` failed")]
fn a_lock_beneath_that_lets_newcomers_in_first_would_be_found() {
    /// Counts arrivals, and is otherwise a lock that any thread may take when it is free.
    struct Barging(shuttle::sync::atomic::AtomicUsize, FutexMutex);
    // SAFETY: the lock is the futex mutex.
    unsafe impl RawLock for Barging {
        type Held = ();
        const NAME: &'static str = "barging";
        platform::initial! { Barging(shuttle::sync::atomic::AtomicUsize::new(0), FutexMutex::new()) }
        fn lock(&self) {
            self.0.fetch_add(1, shuttle::sync::atomic::Ordering::SeqCst);
            self.1.lock();
        }
        fn try_lock(&self) -> Option<()> {
            self.1.try_lock()
        }
        unsafe fn unlock(&self, (): ()) {
            // SAFETY: the contract is the same.
            unsafe { self.1.unlock(()) }
        }
        fn is_locked(&self) -> bool {
            self.1.is_locked()
        }
    }
    // SAFETY: it is not: that is the point, and only an order is at stake.
    unsafe impl Fifo for Barging {
        fn last_in_line(&self) -> usize {
            self.0.load(shuttle::sync::atomic::Ordering::SeqCst)
        }
    }
    those_in_line_pass_and_nobody_else::<Barging>(site!());
}
