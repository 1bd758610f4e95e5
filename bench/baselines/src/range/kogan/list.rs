//! The list of ranges, in the order of their first keys.
//!
//! Harris' list ("A pragmatic implementation of non-blocking linked-lists", 2001) with ranges for
//! keys. To take a range is to link a node between the last one before and the first one behind it
//! by one compare-and-swap; a thread that sees a conflicting node in between must wait until that
//! is released. To release is to mark the node's own link. No thread looks for a node to unlink it:
//! a thread that meets a marked one on its way unlinks it.
//!
//! ```text
//!   head ──► [0, 4] ──► [8, 11] ──x► [20, 29] ──► null         x: marked, so [8, 11] is released
//!     │                                 ▲
//!     └───────────── ... ───────────────┘                      unlinked by the next one that passes
//! ```
//!
//! A thread that finds the list empty puts its node there with a mark on the *head*. As long as no
//! other thread comes, the release is one exchange of that for null, and the node was never looked
//! at, so it can be used again at once: the authors' fast path. Any other thread that comes takes
//! the mark off the head first.
//!
//! Among exclusive ranges the compare-and-swap finds every conflict: two that overlap have their
//! place behind the same node. A shared range may pass others that share. So a shared range that
//! begins early can be linked while an overlapping exclusive one is linked further behind. Both
//! look again after they are linked: a reader looks ahead, and waits for the other; a writer looks
//! from the head to its own node, and gives way.
//!
//! Invariants:
//! 1. Nodes that are linked stand in the order of their first keys.
//! 2. Two exclusive nodes that conflict are never both linked and not released. If an exclusive and
//!    a shared node conflict and are both linked and not released, at most one of them has found
//!    nothing in its way when it looked again.
//! 3. A node that is not released is linked. An unlinked node was released, and no linked node
//!    leads to it.
//! 4. If the head is marked, the one node is not released, and no thread has looked at it.
//!
//! # Memory orderings
//! Links are read with acquire and written with release, so a thread that meets a node sees its
//! range, and a thread that sees a mark sees what the holder wrote. A thread that unlinks has seen
//! the mark, and a thread that follows or replaces the link that it wrote has seen that; every
//! change of a link is an exchange, so this holds however often it changed since. The two looks of
//! Invariant 2 are Dekker's pattern: link, sequentially consistent fence, look, on both sides.

use super::node::{Node, Place, Wanted, is_marked, marked, unmarked};
use super::pool::{self, Walk};
use manx::range::Access;
use platform::atomic::{AtomicPtr, Ordering, fence};
use std::ptr::{self, NonNull};

/// What to do about a node that is in the way: whether it is released by now.
pub(super) type Patience = fn(&Node) -> bool;

/// There is a conflicting range.
#[derive(Debug)]
pub(super) struct Conflict;

/// Ranges that are held. See the module's text.
#[derive(Debug)]
pub(super) struct List {
    head: AtomicPtr<Node>,
}

// SAFETY: nodes pass from thread to thread as the invariants, and those of the pool, say.
unsafe impl Send for List {}
// SAFETY: as above.
unsafe impl Sync for List {}

impl List {
    pub(super) fn new() -> List {
        List { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Links the node into an empty list, if it is empty.
    ///
    /// # Safety
    /// The node is lent to the caller and its range was set.
    #[inline]
    pub(super) unsafe fn link_alone(&self, node: NonNull<Node>) -> bool {
        let wanted = marked(node.as_ptr());
        // Relaxed: a hint. Acquire: the thread that emptied the list had seen all releases.
        self.head.load(Ordering::Relaxed).is_null()
            && self
                .head
                .compare_exchange(ptr::null_mut(), wanted, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Links the node, if nothing is in its way that `patience` does not see the end of. Whether
    /// the list was empty, so that there is nothing to look at again.
    ///
    /// # Safety
    /// The node is lent to the caller and its range was set.
    pub(super) unsafe fn link(
        &self,
        walk: &Walk,
        node: NonNull<Node>,
        patience: Patience,
    ) -> Result<bool, Conflict> {
        // SAFETY: lent to the caller.
        let (new, wanted) = unsafe { (node.as_ref(), node.as_ref().wanted()) };
        'again: loop {
            // The node of this link stays, while we walk.
            let mut link = &self.head;
            let mut current = self.first();
            loop {
                if is_marked(current) {
                    if !ptr::eq(link, &self.head) {
                        // The node of this link was released under us.
                        continue 'again;
                    }
                    current = self.first();
                }
                if let Some(other) = NonNull::new(current) {
                    // SAFETY: a link led to it while we walk (the pool's Invariant 2).
                    let other_node = unsafe { other.as_ref() };
                    let next = other_node.next.load(Ordering::Acquire);
                    if is_marked(next) {
                        current = self.unlink(walk, link, other, unmarked(next));
                        continue;
                    }
                    match other_node.wanted().place(&wanted) {
                        Place::Before => {
                            link = &other_node.next;
                            current = next;
                            continue;
                        }
                        Place::Conflicts if patience(other_node) => continue,
                        Place::Conflicts => return Err(Conflict),
                        Place::Behind => {}
                    }
                }
                // Relaxed: the exchange publishes it.
                new.next.store(current, Ordering::Relaxed);
                let alone = current.is_null() && ptr::eq(link, &self.head);
                let to = if alone { marked(node.as_ptr()) } else { node.as_ptr() };
                match link.compare_exchange(current, to, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return Ok(alone),
                    Err(now) => current = now,
                }
            }
        }
    }

    /// The first node, after taking the mark off the head.
    fn first(&self) -> *mut Node {
        let mut seen = self.head.load(Ordering::Acquire);
        while is_marked(seen) {
            let plain = unmarked(seen);
            match self.head.compare_exchange(seen, plain, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return plain,
                Err(now) => seen = now,
            }
        }
        seen
    }

    /// Lets `link` lead past a released node, and returns where it leads.
    fn unlink(&self, walk: &Walk, link: &AtomicPtr<Node>, old: NonNull<Node>, next: *mut Node) -> *mut Node {
        match link.compare_exchange(old.as_ptr(), next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // SAFETY: just unlinked, by us.
                unsafe { walk.retire(old) };
                next
            }
            Err(now) => now,
        }
    }

    /// Whether a node that was linked, not alone, has no other in its way, or `patience` sees the
    /// end of it.
    ///
    /// # Safety
    /// The node is linked, and the caller's to release.
    pub(super) unsafe fn look_again(&self, _walk: &Walk, node: NonNull<Node>, patience: Patience) -> bool {
        fence(Ordering::SeqCst);
        // SAFETY: it is the caller's to release, so it is linked and lives.
        let (own, wanted) = unsafe { (node.as_ref(), node.as_ref().wanted()) };
        match wanted.access {
            Access::Shared => self.nobody_behind(own, &wanted, patience),
            Access::Exclusive => self.nobody_before(node, &wanted, patience),
        }
    }

    /// For a shared range: returns whether no exclusive range behind it overlaps.
    fn nobody_behind(&self, own: &Node, wanted: &Wanted, patience: Patience) -> bool {
        let mut next = own.next.load(Ordering::Acquire);
        // SAFETY: a link led to it while we walk. No thread marks `own`, and what others mark still
        // leads on.
        while let Some(other) = unsafe { unmarked(next).as_ref() } {
            let its = other.wanted();
            if its.first > wanted.last {
                return true;
            }
            // The same order as in `link`: released, or in the way.
            next = other.next.load(Ordering::Acquire);
            let in_the_way = !is_marked(next) && its.place(wanted) == Place::Conflicts;
            if in_the_way {
                if !patience(other) {
                    return false;
                }
                next = other.next.load(Ordering::Acquire);
            }
        }
        true
    }

    /// For an exclusive range: returns whether no range before it overlaps.
    fn nobody_before(&self, own: NonNull<Node>, wanted: &Wanted, patience: Patience) -> bool {
        let mut next = self.head.load(Ordering::Acquire);
        // SAFETY: a link led to it while we walk.
        while let Some(other) = unsafe { unmarked(next).as_ref() } {
            if ptr::eq(other, own.as_ptr()) {
                return true;
            }
            next = other.next.load(Ordering::Acquire);
            let in_the_way = !is_marked(next) && other.wanted().place(wanted) == Place::Conflicts;
            if in_the_way {
                if !patience(other) {
                    return false;
                }
                next = other.next.load(Ordering::Acquire);
            }
        }
        // By Invariant 3 it is met on the way. Were it not, nothing would be known of the nodes
        // that were not met.
        false
    }

    /// Releases a range.
    ///
    /// # Safety
    /// The node is linked, not released, and the caller's to release.
    #[inline]
    pub(super) unsafe fn release(&self, node: NonNull<Node>) {
        let alone = marked(node.as_ptr());
        // Relaxed: a hint. Release pairs with the acquire of the thread that links the next one.
        if self.head.load(Ordering::Relaxed) == alone
            && self
                .head
                .compare_exchange(alone, ptr::null_mut(), Ordering::Release, Ordering::Relaxed)
                .is_ok()
        {
            // SAFETY: by Invariant 4.
            unsafe { pool::give_back(node) };
        } else {
            // SAFETY: as the caller says; from here on the node is others'.
            unsafe { node.as_ref() }.release();
        }
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        // Relaxed: the thread that drops it has it alone, and has seen all others end.
        let mut next = self.head.load(Ordering::Relaxed);
        while let Some(node) = NonNull::new(unmarked(next)) {
            // SAFETY: by Invariant 3 linked nodes are in no pool; no thread walks any more.
            unsafe {
                next = node.as_ref().next.load(Ordering::Relaxed);
                Node::free(node);
            }
        }
    }
}
