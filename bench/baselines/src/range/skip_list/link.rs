//! A reference to the next node that can be marked, in one word: the thesis'
//! `AtomicMarkableReference` (section 3.2.2).
//!
//! The mark belongs to the node that the link stands in, not to the one it leads to: a marked link
//! says that its own node leaves the list of this level. It is the lowest bit of the pointer, which
//! is 0 in every address of a node, so that both change in one step.
//!
//! | pointer | mark | meaning |
//! | --- | --- | --- |
//! | null | 0 | the last node of its level |
//! | node | 0 | that one is next |
//! | any | 1 | this node leaves; the link never changes again |
//!
//! Invariant 1: a marked link keeps its value until its node is used again.
//!
//! # Memory orderings
//! Links are loaded with acquire and changed with release, so a thread that follows a link sees the
//! node that it leads to as it was when it was linked. Marks are sequentially consistent, because
//! at the lowest level a mark is the release of a range, and
//! [`WaitQueue`](super::super::queue::WaitQueue) wants to know the order of that and of a waiter's
//! try. (The thesis stores with relaxed ordering and never publishes the fields of a node by more
//! than its compare-and-swap; it is the same here, but in one place.)

use platform::atomic::{AtomicPtr, Ordering};
use std::ptr;

const MARK: usize = 1;

/// A link as it was when it was loaded.
#[derive(Debug)]
pub(in crate::range) struct Reference<N>(*mut N);

impl<N> Clone for Reference<N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Reference<N> {}

impl<N> Reference<N> {
    /// Whether the link's own node leaves.
    #[inline(always)]
    pub(in crate::range) fn is_marked(self) -> bool {
        self.0.addr() & MARK != 0
    }

    /// The next node, or null.
    #[inline(always)]
    pub(in crate::range) fn node(self) -> *mut N {
        self.0.map_addr(|address| address & !MARK)
    }
}

/// A link that threads change without a lock.
#[derive(Debug)]
pub(in crate::range) struct Link<N>(AtomicPtr<N>);

impl<N> Link<N> {
    platform::const_fn! {
        /// Leads nowhere.
        pub(in crate::range) const fn new() -> Self {
            Link(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Where it leads, and whether its node leaves: the thesis' `get`.
    #[inline(always)]
    pub(in crate::range) fn load(&self) -> Reference<N> {
        Reference(self.0.load(Ordering::Acquire))
    }

    /// Whether it led nowhere a moment ago.
    #[inline(always)]
    pub(in crate::range) fn is_empty(&self) -> bool {
        // Relaxed: nothing is followed.
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Lets it lead to `node`, unmarked. For links of nodes that no other thread can follow at this
    /// level.
    #[inline(always)]
    pub(in crate::range) fn set(&self, node: *mut N) {
        // Relaxed: what links the node in publishes it.
        self.0.store(node, Ordering::Relaxed);
    }

    /// Lets it lead to `new` if it is unmarked and leads to `expected`: the thesis'
    /// `compareAndSwap`.
    ///
    /// # Errors
    /// It is marked, or leads elsewhere: the link as it is.
    #[inline(always)]
    pub(in crate::range) fn replace(&self, expected: *mut N, new: *mut N) -> Result<(), Reference<N>> {
        // Release publishes `new`; acquire, because a failure's value is followed.
        match self.0.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(found) => Err(Reference(found)),
        }
    }

    /// Marks it: the thesis' `attemptMark`, until it is done. Only the releaser of the node's range
    /// does this, so another failure means that another thread changed what is next, and got on.
    #[inline]
    pub(in crate::range) fn mark(&self) {
        let mut found = self.0.load(Ordering::Relaxed);
        loop {
            let marked = found.map_addr(|address| address | MARK);
            match self.0.compare_exchange(found, marked, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => found = other,
            }
        }
    }
}
