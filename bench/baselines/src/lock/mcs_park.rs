//! The MCS lock whose waiters spin for a while, then park.
//!
//! The queue of [`manx::lock::Mcs`], with waiters that leave their CPU to others if it takes
//! longer: known as MCS-STP (Dice, "Malthusian locks", 2017). Waiters burn nothing, but the order
//! is as strict as ever: each hand-over to a waiter that sleeps takes as long as it takes to wake
//! up, while no thread uses the lock. With more threads than CPUs that is nearly all of them.
//!
//! | `state` of a place | meaning | changed by |
//! | --- | --- | --- |
//! | 0 | it waits and spins, or has never had to wait | |
//! | 1 | it holds the lock | the one before, once, when it leaves |
//! | 2 | it sleeps, or is about to | its owner, from 0 |
//!
//! Invariants:
//! 1. The holder is the first in the queue, and stays in it until it unlocks.
//! 2. A waiter sleeps only while its word is 2, and the exchange for 1 that takes away a 2 is
//!    followed by a wake-up. After that exchange the place may be gone: no reference to it is left,
//!    and the kernel gets its address, as a key. At worst a thread that sleeps elsewhere at the
//!    same address looks again.
//!
//! # Memory orderings
//! The word is exchanged for 1 with release and read with acquire: the waiter that is told sees
//! what the last holder wrote. The change to 2 fails if the 1 was first, and then acquires too. The
//! rest is the queue's.

use manx::cpu::{refresh_if_old, short_of_cpus};
use manx::lock::queue::{Node, Queue, QueueHeld, give_back, lend};
use manx::lock::{Fifo, RawLock};
use manx::wait::Adaptive;
use platform::atomic::{AtomicU32, Ordering};
use platform::{cpu, futex};
use std::ptr::NonNull;

const WAITING: u32 = 0;
const YOURS: u32 = 1;
const ASLEEP: u32 = 2;

/// The MCS lock with waiters that spin, then park. First in, first out. See the module's text.
#[derive(Debug)]
pub struct McsPark {
    queue: Queue,
}

impl McsPark {
    /// How often a waiter pauses before it parks: for about as long as a sleep and a wake-up take.
    /// Not once while the process is short of CPUs.
    pub const SPINS: u32 = 1_000;

    platform::const_fn! {
        /// A free lock.
        pub const fn new() -> Self {
            McsPark { queue: Queue::new() }
        }
    }
}

/// Waits until the place with this word is told.
#[cold]
fn await_turn(state: &AtomicU32) {
    refresh_if_old();
    for _ in 0..platform::spin_bound(McsPark::SPINS) {
        if state.load(Ordering::Acquire) == YOURS {
            return;
        }
        if short_of_cpus() {
            break;
        }
        cpu::pause();
    }
    if state.compare_exchange(WAITING, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
        return;
    }
    while state.load(Ordering::Acquire) != YOURS {
        futex::wait(state, ASLEEP);
    }
}

/// Tells the waiter at this place that the lock is its own.
///
/// # Safety
/// It waits, and no other thread tells it.
#[inline]
unsafe fn tell(behind: NonNull<Node>) {
    // SAFETY: it waits, so its place is lent to it until it is told.
    let state = unsafe { &raw const (*behind.as_ptr()).state };
    // SAFETY: as above. The exchange tells it.
    if unsafe { (*state).swap(YOURS, Ordering::Release) } == ASLEEP {
        // By Invariant 2: an address, from now on.
        futex::wake(state, 1);
    }
}

// SAFETY: by Invariant 1, Invariant 3 of the queue, and the orderings in the module's texts. Places
// do not know where the lock is.
unsafe impl RawLock for McsPark {
    type Held = QueueHeld;
    const NAME: &'static str = "mcs-park";
    platform::initial! { McsPark::new() }

    #[inline]
    fn lock(&self) -> QueueHeld {
        let node = lend();
        // SAFETY: just lent, and given back in `unlock`.
        if !unsafe { self.queue.enter(node) } {
            // SAFETY: lent to this thread.
            await_turn(&unsafe { node.as_ref() }.state);
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
        if let Some(behind) = unsafe { self.queue.leave(node, Adaptive::DEFAULT) } {
            // SAFETY: it is behind the holder that leaves, which tells it, once.
            unsafe { tell(behind) };
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
unsafe impl Fifo for McsPark {
    fn last_in_line(&self) -> usize {
        self.queue.tail().addr()
    }
}
