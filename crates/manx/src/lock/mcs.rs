//! The MCS lock: a queue in which each waiter spins on a word of its own.
//!
//! Mellor-Crummey and Scott's lock (1991; see [`super::queue`]). First in, first out; a hand-over
//! costs one cache miss however many threads wait. In every strict queue whose waiters spin, all
//! waiters wait for the next thread in line, even if that thread has no CPU. So with more threads
//! than CPUs the lock loses nearly all of its throughput.
//!
//! Each thread in the queue has a *place* there: a node with a word `state`.
//!
//! | `state` | meaning | changed by |
//! | --- | --- | --- |
//! | 0 | the thread waits; or it came to an empty queue and never had to wait | |
//! | 1 | the lock has been handed over to this thread | the thread before it, once, when it leaves |
//!
//! Invariant 1: the holder of the lock is the first in the queue, and stays there until it unlocks.
//! So its place is lent to it for as long as it holds the lock, and the holder keeps a pointer to
//! the place.
//!
//! # Memory orderings
//! `state` is stored with release and read with acquire: a thread that reads 1 sees what the last
//! holder wrote. The other orderings are the queue's.

use super::queue::{Queue, QueueHeld, give_back, lend};
use super::{Fifo, RawLock};
use crate::wait::{Policy, Spin};
use platform::atomic::Ordering;

/// The `state` of a thread to which the lock was handed over.
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

// SAFETY: by Invariant 1, Invariant 3 of the queue, and the orderings in the module's texts. No
// place holds the lock's address, so the lock may move.
unsafe impl RawLock for Mcs {
    type Held = QueueHeld;
    const NAME: &'static str = "mcs";
    platform::initial! { Mcs::new() }

    #[inline]
    fn lock(&self) -> QueueHeld {
        let node = lend();
        // SAFETY: the place was lent just now, and `unlock` gives it back.
        if !unsafe { self.queue.enter(node) } {
            // SAFETY: the place is lent to this thread.
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
        // SAFETY: the contract is the same.
        unsafe { self.unlock_and_look(held) };
    }

    #[inline]
    unsafe fn unlock_and_look(&self, held: QueueHeld) -> bool {
        let node = held.into_node();
        // SAFETY: the caller holds the lock at this place, so it is the first (Invariant 1).
        let behind = unsafe { self.queue.leave(node, Spin) };
        if let Some(behind) = behind {
            // SAFETY: the thread behind waits, so its place is lent to it until it reads 1.
            unsafe { behind.as_ref() }.state.store(YOURS, Ordering::Release);
        }
        // SAFETY: `lock` lent the place, and the place has left the queue.
        unsafe { give_back(node) };
        behind.is_some()
    }

    #[inline]
    fn is_locked(&self) -> bool {
        !self.queue.is_empty()
    }
}

// SAFETY: the queue has the order of arrival, and each holder hands the lock to the thread behind.
unsafe impl Fifo for Mcs {
    fn last_in_line(&self) -> usize {
        self.queue.tail().addr()
    }
}
