//! The queue of Mellor-Crummey and Scott: each thread waits at a place of its own, and is told by
//! the thread before it.
//!
//! "Algorithms for scalable synchronization on shared-memory multiprocessors" (1991). What waiting
//! and telling mean is left to the lock; the queue knows the order of its threads, and that the
//! first one holds the lock.
//!
//! For authors of locks: [`super::Mcs`] is made of this, and so are locks of other packages.
//!
//! ```text
//!   tail ───────────────────────────────┐
//!                                       ▼
//!   holder ──next──► waiter ──next──► waiter ──► nobody (null)
//! ```
//!
//! To arrive, a thread swaps the tail for its own place. If there was a place before, the thread
//! writes its own into the `next` of that place. To leave, if no thread is behind, it swaps the
//! tail back to null. That fails if another thread has just arrived; then it waits until that
//! thread has written `next`.
//!
//! Invariants:
//! 1. `tail` is the place of the last thread to arrive that has not left, or null. A place leaves
//!    by changing `tail` from itself to null, or after having seen its `next`.
//! 2. Each place gets its `next` from the thread that found it in `tail`, once. So a place that has
//!    left is written to no more, and may be reused.
//! 3. A thread that found null in `tail` holds the lock, and so does a thread that the one before
//!    has told. Each thread tells the one behind it once, when it leaves.
//!
//! # Memory orderings
//! A swap of `tail` releases, so that a thread which finds a place there sees it as it was lent. It
//! also acquires, so that a thread which finds null sees what the last holder wrote before it
//! released the tail. `next` is written with release and read with acquire for the same reason: the
//! reader is about to write to that place.

use crate::wait::Policy;
use platform::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

pub use super::node::{Node, Pool, Side, give_back, lend};

/// The holder of a lock, and its waiters.
///
/// ```
/// use manx::lock::queue::{Queue, give_back, lend};
/// use manx::wait::Spin;
///
/// let (queue, node) = (Queue::new(), lend());
/// // SAFETY: the place was just lent, and is given back once the queue is left.
/// let is_first = unsafe { queue.enter(node) };
/// assert!(is_first && !queue.is_empty());
/// // SAFETY: this thread is the first.
/// assert!(unsafe { queue.leave(node, Spin) }.is_none(), "nobody has to be told");
/// // SAFETY: no queue leads to it any more.
/// unsafe { give_back(node) };
/// ```
#[derive(Debug)]
pub struct Queue {
    tail: AtomicPtr<Node>,
}

impl Queue {
    platform::const_fn! {
        /// An empty queue.
        pub const fn new() -> Self {
            Queue { tail: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Whether the queue was empty a moment ago.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail().is_null()
    }

    /// The last place, to compare.
    #[inline]
    pub fn tail(&self) -> *mut Node {
        self.tail.load(Ordering::Relaxed)
    }

    /// Takes the lock if no other thread is there.
    #[inline]
    pub fn try_enter(&self) -> Option<QueueHeld> {
        try_enter(&self.tail)
    }

    /// Stands at `node`, behind all others; returns whether it is the first.
    ///
    /// # Safety
    /// The place was lent to the caller, is as new, and stays lent until [`Queue::leave`] has
    /// returned.
    #[inline]
    pub unsafe fn enter(&self, node: NonNull<Node>) -> bool {
        let before = self.tail.swap(node.as_ptr(), Ordering::AcqRel);
        if before.is_null() {
            return true;
        }
        // SAFETY: by Invariants 1 and 2 it has not left, and will not until this is written.
        unsafe { (*before).next.store(node.as_ptr(), Ordering::Release) };
        false
    }

    /// Leaves the queue as its first; returns the place behind, whose thread has to be told. Waits
    /// by this policy for a thread that has arrived and not yet said where it stands.
    ///
    /// # Safety
    /// The caller is the first in the queue, at `node`.
    #[inline]
    pub unsafe fn leave(&self, node: NonNull<Node>, policy: impl Policy) -> Option<NonNull<Node>> {
        // SAFETY: the place is lent to the caller.
        let place = unsafe { node.as_ref() };
        let behind = place.next.load(Ordering::Acquire);
        if !behind.is_null() {
            return NonNull::new(behind);
        }
        // Release: a thread that finds null holds the lock. A failure learns nothing that `next`
        // does not say.
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

/// Takes the lock whose queue ends at `tail` if no thread is there, at a place of the calling
/// thread's.
#[inline]
pub fn try_enter<S: Side>(tail: &AtomicPtr<Node<S>>) -> Option<QueueHeld<S>> {
    if !tail.load(Ordering::Relaxed).is_null() {
        return None;
    }
    let (node, nobody) = (lend(), ptr::null_mut());
    // Acquire and release as in the module's text; a failure learns nothing.
    if tail.compare_exchange(nobody, node.as_ptr(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        return Some(QueueHeld::at(node));
    }
    // SAFETY: just lent, and no queue leads to it.
    unsafe { give_back(node) };
    None
}

/// What a thread keeps while it holds a lock that queues, such as [`Mcs`](super::Mcs): its place in
/// the queue. It cannot go to another thread, because its place cannot.
#[derive(Debug)]
#[must_use = "the lock is held until it is unlocked with this"]
pub struct QueueHeld<S = ()> {
    node: NonNull<Node<S>>,
}

// SAFETY: nothing can be done with a reference to it.
unsafe impl<S> Sync for QueueHeld<S> {}

impl<S> QueueHeld<S> {
    /// By this place, at which the calling thread holds a lock. For the package `baselines`.
    #[doc(hidden)]
    #[inline]
    pub fn at(node: NonNull<Node<S>>) -> Self {
        QueueHeld { node }
    }

    /// The place. For the package `baselines`.
    #[doc(hidden)]
    #[inline]
    pub fn into_node(self) -> NonNull<Node<S>> {
        self.node
    }
}
