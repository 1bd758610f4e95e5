//! Nodes one behind the other, linked through themselves: where a node is while no thread holds its
//! range.
//!
//! A node that is on its way from one range to the next is in one chain: among the nodes left in a
//! slot, in its limbo, among the ready nodes, or on a shelf (see [`super::epoch`]). The chain needs
//! no memory but the nodes. Each carries a tag, the epoch in which it was retired.
//!
//! Invariant 1: a node is in one chain at most, and a chain is used by one thread at a time.

use platform::cell::UnsafeCell;
use std::ptr::{self, NonNull};

/// What can be retired.
///
/// # Safety
/// [`passage`](Retire::passage) returns the same cell whenever it is called for the same value, and
/// only this module uses it.
pub(super) unsafe trait Retire: Sized {
    /// Where the epochs keep what they need to know.
    fn passage(&self) -> &UnsafeCell<Passage<Self>>;

    /// The epoch at which it was lent.
    fn born(&self) -> u64;
}

/// What is known of a node that is on its way from being linked to being linked again.
#[derive(Debug)]
pub(super) struct Passage<N> {
    next: *mut N,
    tag: u64,
}

impl<N> Passage<N> {
    /// That of a node that is not.
    pub(super) const fn new() -> Self {
        Passage { next: ptr::null_mut(), tag: 0 }
    }
}

/// Nodes one behind the other, with the first and the last known.
pub(super) struct Chain<N> {
    pub(super) first: *mut N,
    pub(super) last: *mut N,
    pub(super) count: u32,
}

impl<N: Retire> Chain<N> {
    /// No node.
    pub(super) const EMPTY: Self = Chain { first: ptr::null_mut(), last: ptr::null_mut(), count: 0 };

    /// Puts a node behind the last one.
    ///
    /// # Safety
    /// The node is the caller's alone; so is the chain.
    pub(super) unsafe fn push_last(&mut self, node: NonNull<N>, tag: u64) {
        // SAFETY: as the caller says.
        unsafe { set_passage(node.as_ptr(), Passage { next: ptr::null_mut(), tag }) };
        match NonNull::new(self.last) {
            // SAFETY: what is in the chain is the caller's.
            Some(last) => unsafe { set_next(last.as_ptr(), node.as_ptr()) },
            None => self.first = node.as_ptr(),
        }
        self.last = node.as_ptr();
        self.count += 1;
    }

    /// Takes the first one.
    ///
    /// # Safety
    /// The chain is the caller's.
    #[inline]
    pub(super) unsafe fn pop_first(&mut self) -> Option<NonNull<N>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: what is in the chain is the caller's.
        let next = unsafe { passage(first.as_ptr()) }.0;
        self.first = next;
        if next.is_null() {
            self.last = ptr::null_mut();
        }
        self.count -= 1;
        Some(first)
    }

    /// Puts another chain behind this one.
    ///
    /// # Safety
    /// The chains are the caller's.
    pub(super) unsafe fn append(&mut self, other: Self) {
        match NonNull::new(self.last) {
            None => *self = other,
            Some(last) if !other.first.is_null() => {
                // SAFETY: as the caller says.
                unsafe { set_next(last.as_ptr(), other.first) };
                self.last = other.last;
                self.count += other.count;
            }
            Some(_) => {}
        }
    }
}

/// # Safety
/// The node is alive and the caller's alone.
unsafe fn set_passage<N: Retire>(node: *mut N, passage: Passage<N>) {
    // SAFETY: as the caller says.
    unsafe { &*node }.passage().with_mut(|place| unsafe { *place = passage });
}

/// Says which node is behind.
///
/// # Safety
/// The node is alive and the caller's alone.
unsafe fn set_next<N: Retire>(node: *mut N, next: *mut N) {
    // SAFETY: as the caller says.
    unsafe { &*node }.passage().with_mut(|place| unsafe { (*place).next = next });
}

/// The node behind, and the tag.
///
/// # Safety
/// The node is alive and the caller's alone.
pub(super) unsafe fn passage<N: Retire>(node: *mut N) -> (*mut N, u64) {
    // SAFETY: as the caller says.
    unsafe { &*node }.passage().with(|place| unsafe { ((*place).next, (*place).tag) })
}
