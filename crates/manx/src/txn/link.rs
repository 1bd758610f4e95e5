//! A link from a version to the one behind it, which several threads may change at once.
//!
//! Versions leave a list in two ways: all that are behind one are cut off, or one is unlinked that
//! has others before and behind it. The second way is Harris's ("A pragmatic implementation of
//! non-blocking linked-lists", 2001), for one thread at a time: it *marks* the version's own link,
//! which then stays as it is, and swings the link that leads to it.
//!
//! ```text
//! before ──► this ──► behind          before ──► this ─marked─► behind      before ─────────► behind
//!                                                                            this ─marked─────►
//! ```
//!
//! Without the mark, another thread could cut off `behind` in between, and `before` would lead to
//! what is about to be freed.
//!
//! Invariants:
//! 1. One link that is not marked leads to a version of a list. The thread that changes this link
//!    has the version, and what only this version leads to, alone.
//! 2. A marked link is changed by a thread that has its version alone, and by no other one.
//! 3. Where a marked link leads to was in the list when it was marked. So a reader that stands on
//!    an unlinked version comes to all that is behind it and still in the list; what it passes was
//!    in the list when it began, or later.
//!
//! # Memory orderings
//! A link is followed with acquire, and changed with release: what is behind it is there.

use platform::atomic::{AtomicPtr, Ordering};
use std::ptr::null_mut;

/// See [the module](self). The versions are `T`; their addresses are even.
#[derive(Debug)]
pub struct Link<T>(AtomicPtr<T>);

fn marked<T>(to: *mut T) -> *mut T {
    to.map_addr(|address| address | 1)
}

fn unmarked<T>(to: *mut T) -> *mut T {
    to.map_addr(|address| address & !1)
}

impl<T> Link<T> {
    /// A link to this version, or to none.
    pub fn new(to: *mut T) -> Link<T> {
        const { assert!(align_of::<T>() > 1) }
        Link(AtomicPtr::new(to))
    }

    /// Where it leads, marked or not.
    #[inline]
    pub fn follow(&self) -> *mut T {
        // Acquire: see *Memory orderings*.
        unmarked(self.0.load(Ordering::Acquire))
    }

    /// Leads elsewhere. Only for a version that no other thread has yet.
    #[inline]
    pub fn set(&self, to: *mut T) {
        // Relaxed: it is published with the version.
        self.0.store(to, Ordering::Relaxed);
    }

    /// Cuts off what is behind a version of a list, and returns it. `None`: the version is being
    /// unlinked, so that nothing may be done here.
    pub fn cut(&self) -> Option<*mut T> {
        let mut behind = self.0.load(Ordering::Acquire);
        loop {
            if behind != unmarked(behind) {
                return None;
            }
            // AcqRel: see *Memory orderings*; Invariant 1.
            match self.0.compare_exchange(behind, null_mut(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(behind) => return Some(behind),
                Err(now) => behind = now,
            }
        }
    }

    /// Takes what is behind a version that the caller has alone.
    pub fn take(&self) -> *mut T {
        // AcqRel: as in `cut`; Invariant 2.
        unmarked(self.0.swap(null_mut(), Ordering::AcqRel))
    }

    /// Unlinks `this`, whose own link is `its` and to which this one leads. Returns whether it did:
    /// then the caller has `this` alone. Otherwise another thread has cut one of the two off.
    ///
    /// One thread at a time unlinks versions of a list.
    pub fn unlink(&self, this: *mut T, its: &Link<T>) -> bool {
        let behind = its.0.load(Ordering::Acquire);
        // AcqRel, here and below: see *Memory orderings*.
        if its.0.compare_exchange(behind, marked(behind), Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        // Nothing is cut off at a marked link, so `behind` is in the list as long as `this` is. If
        // this fails, another thread has `this` alone.
        self.0.compare_exchange(this, behind, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
