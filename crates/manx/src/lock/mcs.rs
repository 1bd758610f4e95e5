//! The MCS lock: a queue in which each waiter spins on a word of its own.
//!
//! Mellor-Crummey and Scott's lock (1991; see [`super::queue`]). First in, first out; a hand-over
//! costs one cache miss however many wait. As with every strict queue whose waiters spin, all of
//! them wait for the next in line even if that thread has no CPU: with more threads than CPUs it
//! loses nearly all of its throughput.
//!
//! | `state` of a place | meaning | changed by |
//! | --- | --- | --- |
//! | 0 | it waits, or has never had to | |
//! | 1 | it holds the lock | the thread before, once, when it leaves |
//!
//! Invariant 1: the holder of the lock is the first in the queue, and stays in it until it unlocks.
//! So a place is lent for as long as the lock is held, and what a holder keeps is a pointer to it.
//!
//! # Memory orderings
//! The word is stored with release and read with acquire: a thread that is told sees what the last
//! holder wrote. The rest is the queue's.

use super::queue::{Queue, QueueHeld, give_back, lend};
use super::{Fifo, RawLock};
use crate::wait::{Policy, Spin};
use platform::atomic::Ordering;

const YOURS: u32 = 1;

/// The MCS lock: first in, first out, and each waiter spins on a word of its own.
///
/// A hand-over costs one cache miss, however many threads wait. With more threads than CPUs it
/// loses nearly all of its throughput, because the lock also passes to threads that do not run.
///
/// Source: Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory
/// multiprocessors" (1991).
///
/// ```
/// use manx::lock::Mcs;
///
/// static COUNT: lock_api::Mutex<Mcs, u32> = lock_api::Mutex::new(0);
/// *COUNT.lock() += 1;
/// assert_eq!(*COUNT.lock(), 1);
/// ```
#[derive(Debug)]
pub struct Mcs {
    queue: Queue,
}

impl Mcs {
    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            Mcs { queue: Queue::new() }
        }
    }
}

// SAFETY: by Invariant 1, Invariant 3 of the queue, and the orderings in the module's texts. Places
// do not know where the lock is.
unsafe impl RawLock for Mcs {
    type Held = QueueHeld;
    const NAME: &'static str = "mcs";
    platform::initial! { Mcs::new() }

    #[inline]
    fn lock(&self) -> QueueHeld {
        let node = lend();
        // SAFETY: just lent, and given back in `unlock`.
        if !unsafe { self.queue.enter(node) } {
            // SAFETY: lent to this thread.
            let state = &unsafe { node.as_ref() }.state;
            Spin.until(|| state.load(Ordering::Acquire) == YOURS);
        }
        QueueHeld::at(node)
    }

    #[inline]
    fn try_lock(&self) -> Option<QueueHeld> {
        self.queue.try_enter()
    }

    #[inline]
    unsafe fn unlock(&self, held: QueueHeld) {
        let node = held.into_node();
        // SAFETY: the caller holds the lock at this place, so it is the first (Invariant 1).
        if let Some(behind) = unsafe { self.queue.leave(node, Spin) } {
            // SAFETY: it waits, so its place is lent to it until it is told.
            unsafe { behind.as_ref() }.state.store(YOURS, Ordering::Release);
        }
        // SAFETY: lent by `lock`, and it has left the queue.
        unsafe { give_back(node) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        !self.queue.is_empty()
    }
}

// SAFETY: the queue is in the order of arrival, and passes from each to the one behind.
unsafe impl Fifo for Mcs {
    fn last_in_line(&self) -> usize {
        self.queue.tail().addr()
    }
}
