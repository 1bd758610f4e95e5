//! A node of the list: a range that a thread holds, held, or wants; and links, which can bear a
//! mark.
//!
//! A mark is the lowest bit of a pointer to a node, which is 0 in every address of one.
//!
//! | link | marked | unmarked |
//! | --- | --- | --- |
//! | a node's `next` | its own node is released; the link never changes again | the node is held, or about to be |
//! | the list's head | the one node that there is, put there in one step; no thread has looked at it | the first node, or none |
//!
//! Invariants:
//! 1. A node's range is written by the thread that it is lent to, before a link leads to it. It is
//!    not changed while any thread may look at it.
//! 2. A marked `next` keeps its value until its node is lent again.

use manx::range::Access;
use platform::atomic::{AtomicPtr, Ordering};
use platform::cell::UnsafeCell;
use std::cell::Cell;
use std::ptr;

const MARK: usize = 1;

/// Whether a link's value bears the mark.
#[inline(always)]
pub(super) fn is_marked(link: *mut Node) -> bool {
    link.addr() & MARK != 0
}

/// The value with the mark.
#[inline(always)]
pub(super) fn marked(link: *mut Node) -> *mut Node {
    link.map_addr(|address| address | MARK)
}

/// The value without the mark.
#[inline(always)]
pub(super) fn unmarked(link: *mut Node) -> *mut Node {
    link.map_addr(|address| address & !MARK)
}

/// What a node stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) access: Access,
}

/// Where a range stands relative to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Before,
    Conflicts,
    Behind,
}

impl Wanted {
    /// Where this one stands relative to `other`. Sharing ranges that overlap are in the order of
    /// their first keys.
    #[inline]
    pub(super) fn place(&self, other: &Wanted) -> Place {
        if self.last < other.first {
            Place::Before
        } else if self.first > other.last {
            Place::Behind
        } else if self.access.conflicts_with(other.access) {
            Place::Conflicts
        } else if self.first <= other.first {
            Place::Before
        } else {
            Place::Behind
        }
    }
}

/// A node of the list. See the module's text.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) next: AtomicPtr<Node>,
    wanted: UnsafeCell<Wanted>,
    /// The next one in a list of the pool that the node is in.
    pub(super) spare: Cell<*mut Node>,
}

impl Node {
    /// A node on the heap that is in no list.
    pub(super) fn allocate() -> ptr::NonNull<Node> {
        let nothing = Wanted { first: 0, last: 0, access: Access::Exclusive };
        ptr::NonNull::from(Box::leak(Box::new(Node {
            next: AtomicPtr::new(ptr::null_mut()),
            wanted: UnsafeCell::new(nothing),
            spare: Cell::new(ptr::null_mut()),
        })))
    }

    /// Gives a node back to the heap.
    ///
    /// # Safety
    /// It comes from [`Node::allocate`], and no thread uses it any more.
    pub(super) unsafe fn free(node: ptr::NonNull<Node>) {
        // SAFETY: as the caller says.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }

    /// What it stands for.
    #[inline]
    pub(super) fn wanted(&self) -> Wanted {
        // SAFETY: by Invariant 1 no thread writes while another may look.
        self.wanted.with(|wanted| unsafe { *wanted })
    }

    /// Writes what the node stands for; it is the last one, and not released.
    ///
    /// # Safety
    /// It is lent to the caller, and no link leads to it.
    #[inline]
    pub(super) unsafe fn set(&self, wanted: Wanted) {
        // Relaxed: the exchange that links it publishes both.
        self.next.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: as the caller says.
        self.wanted.with_mut(|place| unsafe { *place = wanted });
    }

    /// Whether its range was released.
    #[inline]
    pub(super) fn is_released(&self) -> bool {
        is_marked(self.next.load(Ordering::Acquire))
    }

    /// Releases its range: marks `next` in one step, whatever others link behind it meanwhile. (A
    /// load and a store of the marked value, as one finds it published, loses what is linked in
    /// between.)
    #[inline]
    pub(super) fn release(&self) {
        let mut seen = self.next.load(Ordering::Relaxed);
        // Release: what the holder wrote is seen by a thread that sees the mark. Failures follow
        // nothing.
        while let Err(now) =
            self.next.compare_exchange_weak(seen, marked(seen), Ordering::Release, Ordering::Relaxed)
        {
            seen = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Access::{Exclusive, Shared};

    #[test]
    fn overlapping_ranges_conflict_unless_they_share() {
        let place = |one: (u64, u64, Access), two: (u64, u64, Access)| {
            let wanted = |(first, last, access)| Wanted { first, last, access };
            wanted(one).place(&wanted(two))
        };
        assert_eq!(place((0, 4, Exclusive), (5, 9, Exclusive)), Place::Before);
        assert_eq!(place((5, 9, Exclusive), (0, 4, Shared)), Place::Behind);
        assert_eq!(place((0, 5, Exclusive), (5, 9, Shared)), Place::Conflicts);
        assert_eq!(place((0, 5, Shared), (5, 9, Exclusive)), Place::Conflicts);
        assert_eq!(place((0, 5, Shared), (0, 9, Shared)), Place::Before);
        assert_eq!(place((1, 5, Shared), (0, 9, Shared)), Place::Behind);
        assert_eq!(place((0, u64::MAX, Exclusive), (u64::MAX, u64::MAX, Exclusive)), Place::Conflicts);
    }

    #[test]
    fn a_release_keeps_where_the_link_leads() {
        let (node, next) = (Node::allocate(), Node::allocate());
        // SAFETY: no other thread knows of them.
        unsafe {
            node.as_ref().next.store(next.as_ptr(), Ordering::Relaxed);
            assert!(!node.as_ref().is_released());
            node.as_ref().release();
            assert!(node.as_ref().is_released());
            assert_eq!(unmarked(node.as_ref().next.load(Ordering::Relaxed)), next.as_ptr());
            Node::free(node);
            Node::free(next);
        }
    }
}
