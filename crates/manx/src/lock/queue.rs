//! The queue of Mellor-Crummey and Scott: each waits at a place of its own, and is told by the one before.
//!
//! "Algorithms for scalable synchronization on shared-memory multiprocessors" (1991). What waiting and telling
//! mean is left to the lock; the queue knows who comes after whom, and that the first in it holds the lock.
//!
//! ```text
//!   tail ───────────────────────────────┐
//!                                       ▼
//!   holder ──next──► waiter ──next──► waiter ──► nobody (null)
//! ```
//!
//! To arrive: swap the tail for one's own place; if there was one before, write one's own into its `next`.
//! To leave: if nobody is behind, swap the tail back to null, which fails if somebody has just arrived;
//! then wait until that one has written `next`.
//!
//! Invariants:
//! 1. `tail` is the place of the last to arrive that has not left, or null. A place leaves by changing `tail` from
//!    itself to null, or after having seen its `next`.
//! 2. Each place gets its `next` from the one that found it in `tail`, once. So who has left is written to no
//!    more, and may be reused.
//! 3. Whoever found null in `tail` holds the lock, and so does who is told to by the one before, who does so
//!    once, when it leaves.
//!
//! # Memory orderings
//! A swap of `tail` releases, so that who finds a place there sees it as it was lent; and acquires, so
//! that who finds null sees what the last holder wrote before it released the tail. `next` is written with
//! release and read with acquire for the same reason: the reader is about to write to that place.

use super::node::{self, Node};
use crate::wait::Policy;
use platform::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// Who holds a lock, and who waits for it.
#[derive(Debug)]
pub(super) struct Queue {
    tail: AtomicPtr<Node>,
}

impl Queue {
    platform::const_fn! {
        /// Nobody.
        pub(super) const fn new() -> Self {
            Queue { tail: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Whether the queue was empty a moment ago.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.tail().is_null()
    }

    /// The last place, to compare.
    #[inline]
    pub(super) fn tail(&self) -> *mut Node {
        self.tail.load(Ordering::Relaxed)
    }

    /// Takes the lock if nobody else is there.
    #[inline]
    pub(super) fn try_enter(&self) -> Option<QueueHeld> {
        try_enter(&self.tail)
    }

    /// Stands at `node`, behind all others; returns whether it is the first.
    ///
    /// # Safety
    /// The place was lent to the caller, is as new, and stays lent until [`Queue::leave`] has returned.
    #[inline]
    pub(super) unsafe fn enter(&self, node: NonNull<Node>) -> bool {
        let before = self.tail.swap(node.as_ptr(), Ordering::AcqRel);
        if before.is_null() {
            return true;
        }
        // SAFETY: by Invariants 1 and 2 it has not left, and will not until this is written.
        unsafe { (*before).next.store(node.as_ptr(), Ordering::Release) };
        false
    }

    /// Leaves the queue as its first; returns who is behind and has to be told. Waits by this policy for one
    /// who has arrived and not yet said where it stands.
    ///
    /// # Safety
    /// The caller is the first in the queue, at `node`.
    #[inline]
    pub(super) unsafe fn leave(&self, node: NonNull<Node>, policy: impl Policy) -> Option<NonNull<Node>> {
        // SAFETY: the place is lent to the caller.
        let place = unsafe { node.as_ref() };
        let behind = place.next.load(Ordering::Acquire);
        if !behind.is_null() {
            return NonNull::new(behind);
        }
        // Release: who finds null holds the lock. A failure learns nothing that `next` does not say.
        let gone = ptr::null_mut();
        if self.tail.compare_exchange(node.as_ptr(), gone, Ordering::Release, Ordering::Relaxed).is_ok() {
            return None;
        }
        let mut behind = gone;
        policy.until(|| {
            behind = place.next.load(Ordering::Acquire);
            !behind.is_null()
        });
        NonNull::new(behind)
    }
}

/// Takes the lock whose queue ends at `tail` if nobody is there, at a place of the calling thread's.
#[inline]
pub(super) fn try_enter(tail: &AtomicPtr<Node>) -> Option<QueueHeld> {
    if !tail.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let (node, nobody) = (node::lend(), ptr::null_mut());
    // Acquire and release as in the module's text; a failure learns nothing.
    if tail.compare_exchange(nobody, node.as_ptr(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        return Some(QueueHeld::at(node));
    }
    // SAFETY: just lent, and no queue leads to it.
    unsafe { node::give_back(node) };
    None
}

/// The place by which a thread holds a lock. It cannot go to another thread, because its place cannot.
#[derive(Debug)]
#[must_use = "the lock is held until it is unlocked with this"]
pub struct QueueHeld {
    node: NonNull<Node>,
}

// SAFETY: nothing can be done with a reference to it.
unsafe impl Sync for QueueHeld {}

impl QueueHeld {
    #[inline]
    pub(super) fn at(node: NonNull<Node>) -> Self {
        QueueHeld { node }
    }

    #[inline]
    pub(super) fn into_node(self) -> NonNull<Node> {
        self.node
    }
}
