//! The versions of one key, the newest first.
//!
//! A list that grows at its head. Readers walk it without waiting for any other thread. A writer
//! puts a version before the others if it may see the newest one. If it may not see that, it was
//! too late: the first writer wins.
//!
//! ```text
//! head ──► id 9 "c" ──► id 4 "b" ──► id 2 "a"
//!          still at work  over for all: nothing can see what is behind it, and that is cut off
//! ```
//!
//! A version between two others is unlinked if no snapshot sees it and not the next newer one
//! (`link.rs` has how, `coordinator/readers.rs` how that is known).
//!
//! Invariants:
//! 1. Only the first version may be of a transaction that is at work; the others are in the order
//!    of their commits. So a transaction that takes back what it wrote finds it at the head.
//! 2. A list that is *closed* has nothing, and never will: its key is about to leave the table. A
//!    thread that is about to write takes a new list.
//! 3. What is cut off or unlinked is freed when no thread is reading that was when it was cut
//!    (`retired.rs`).
//! 4. Of two versions, a snapshot that sees the newer one sees the older one. So a version that a
//!    snapshot needs is the newest one that it sees, and to unlink others changes nothing for it.
//! 5. A version is unlinked only when the one before it is over for all later snapshots. So the
//!    link of a version at work, by which it is taken back, stays as it is.
//!
//! # Memory orderings
//! A version is published by the swap of the head (release) and found by its load (acquire). The
//! timestamp of a commit is written before the transaction ends, and read after a snapshot that
//! shows its end.

use super::coordinator::{Readers, Snapshot};
use super::data::Value;
use super::link::Link;
use super::retired::Retired;
use crossbeam_epoch::{Atomic, Guard, Owned, Shared};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a key had from some transaction on.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) id: u64,
    /// The timestamp of its commit; 0 if it has none.
    timestamp: AtomicU64,
    /// `None`: it was deleted.
    pub(super) value: Option<Value>,
    next: Link<Version>,
}

impl Version {
    /// The only one of a list, so far.
    pub(super) fn first(id: u64, value: Option<Value>) -> Version {
        Version { id, timestamp: AtomicU64::new(0), value, next: Link::new(null_mut()) }
    }

    pub(super) fn timestamp(&self) -> u64 {
        // Relaxed: ordered by the snapshot.
        self.timestamp.load(Ordering::Relaxed)
    }

    /// The next older one.
    fn behind<'g>(&self, _: &'g Guard) -> Shared<'g, Version> {
        Shared::from(self.next.follow().cast_const())
    }

    /// The memory that it takes, if no reader has its value.
    fn bytes(&self) -> usize {
        size_of::<Version>() + self.value.as_ref().map_or(0, |value| COUNTS_BYTES + value.len())
    }
}

/// What a value takes beside its bytes: how many have it.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// What a write found before the version that it wrote.
#[derive(Debug)]
pub(super) struct Before<'g> {
    /// The value that the key had for the transaction.
    pub(super) value: Option<&'g Value>,
    /// The transaction itself had written it. Its version is in the list no more, and is the
    /// caller's to free.
    pub(super) own: Option<Shared<'g, Version>>,
    /// The memory of the version that was written over, which is still in the list unless it is the
    /// transaction's own.
    pub(super) bytes: usize,
}

/// All versions of a key that a transaction may still see.
#[derive(Debug, Default)]
pub(super) struct Versions {
    head: Atomic<Version>,
}

/// What a reader may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum View<'a> {
    /// What is over in the snapshot, and not later than the timestamp; and what `own` wrote.
    Of { snapshot: &'a Snapshot, own: Option<u64>, timestamp: u64 },
    /// Whatever was written last.
    Newest,
}

impl View<'_> {
    fn sees(&self, version: &Version) -> bool {
        match *self {
            View::Newest => true,
            View::Of { snapshot, own, timestamp } => {
                own == Some(version.id) || snapshot.sees(version.id) && version.timestamp() <= timestamp
            }
        }
    }
}

/// What tells which versions transactions may need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs<'a> {
    pub(super) readers: &'a Readers,
    /// No transaction needs to tell timestamps apart that are not above this one.
    pub(super) oldest_timestamp: u64,
    /// What all below this id wrote is settled in the data component.
    pub(super) settled: u64,
}

/// Why a version is kept that others have written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// A snapshot of this end is in use.
    Until(u64),
    /// A transaction may read at a timestamp.
    ByTimestamp,
}

/// Why a version was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The writer does not see what this one wrote.
    Conflict(u64),
    /// Invariant 2.
    Closed,
}

/// The tag of a head that is closed.
const CLOSED: usize = 1;

impl Versions {
    /// Whether there is no version yet.
    pub(super) fn is_empty(&self, guard: &Guard) -> bool {
        let head = self.head.load(Ordering::Acquire, guard);
        head.is_null() && head.tag() != CLOSED
    }

    /// Whether the list is closed: it is empty, its key is being removed, and no version may be
    /// added (Invariant 2).
    #[inline]
    pub(super) fn is_closed(&self, guard: &Guard) -> bool {
        self.head.load(Ordering::Acquire, guard).tag() == CLOSED
    }

    /// Begins with a version that all see, unless another thread has begun.
    pub(super) fn begin_with(&self, value: Option<Value>, guard: &Guard) {
        let first = Owned::new(Version::first(0, value));
        // A thread that was faster knew the same.
        let _ = self.head.compare_exchange(Shared::null(), first, Ordering::AcqRel, Ordering::Relaxed, guard);
    }

    /// The version that is seen, if there is one. It may say that the key was deleted.
    #[inline]
    pub(super) fn see<'g>(&self, view: View<'_>, guard: &'g Guard) -> Option<&'g Version> {
        let mut at = self.head.load(Ordering::Acquire, guard);
        // SAFETY: in the list since the guard began, or later: Invariant 3.
        while let Some(version) = unsafe { at.as_ref() } {
            if view.sees(version) {
                return Some(version);
            }
            at = version.behind(guard);
        }
        None
    }

    /// The id of the newest version if the view does not see it: another transaction is writing the
    /// key, or has written it since the snapshot.
    pub(super) fn hidden(&self, view: View<'_>, guard: &Guard) -> Option<u64> {
        // SAFETY: Invariant 3.
        let first = unsafe { self.head.load(Ordering::Acquire, guard).as_ref() }?;
        (!view.sees(first)).then_some(first.id)
    }

    /// Writes a version, in place of one by the same transaction if there is one. Returns what was
    /// there.
    pub(super) fn write<'g>(
        &self,
        id: u64,
        value: Option<Value>,
        view: View<'_>,
        guard: &'g Guard,
    ) -> Result<Before<'g>, Refused> {
        let mut version = Owned::new(Version::first(id, value));
        loop {
            let head = self.head.load(Ordering::Acquire, guard);
            if head.tag() == CLOSED {
                return Err(Refused::Closed);
            }
            // SAFETY: Invariant 3.
            let first = unsafe { head.as_ref() };
            let is_own = match first {
                Some(first) if !view.sees(first) => return Err(Refused::Conflict(first.id)),
                Some(first) => first.id == id,
                None => false,
            };
            let next = match first {
                Some(own) if is_own => own.behind(guard),
                _ => head,
            };
            version.next.set(next.as_raw().cast_mut());
            match self.head.compare_exchange(head, version, Ordering::AcqRel, Ordering::Relaxed, guard) {
                Ok(_) => {
                    return Ok(Before {
                        value: first.and_then(|first| first.value.as_ref()),
                        own: is_own.then_some(head),
                        bytes: first.map_or(0, Version::bytes),
                    });
                }
                Err(error) => version = error.new,
            }
        }
    }

    /// Takes back what the transaction wrote, which is at work.
    pub(super) fn take_back(&self, id: u64, retired: &mut Retired<Version>, guard: &Guard) {
        let head = self.head.load(Ordering::Acquire, guard);
        // SAFETY: Invariant 3.
        let Some(first) = (unsafe { head.as_ref() }).filter(|first| first.id == id) else { return };
        let next = first.behind(guard);
        // No other thread changes a head that is at work: Invariant 1.
        let taken = self.head.compare_exchange(head, next, Ordering::AcqRel, Ordering::Relaxed, guard);
        debug_assert!(taken.is_ok(), "somebody wrote over a transaction at work");
        if taken.is_ok() {
            // SAFETY: it is in the list no more.
            unsafe { retired.take(head, first.bytes(), guard) };
        }
    }

    /// The transaction, which is at work, commits what it wrote at this timestamp.
    pub(super) fn stamp(&self, id: u64, timestamp: u64, guard: &Guard) {
        // SAFETY: Invariant 3.
        let first = unsafe { self.head.load(Ordering::Acquire, guard).as_ref() };
        if let Some(first) = first.filter(|first| first.id == id) {
            // Relaxed: published by the transaction's end.
            first.timestamp.store(timestamp, Ordering::Relaxed);
        }
    }

    /// The timestamp of the last commit before the transaction, which is at work and has written; 0
    /// if that has none.
    pub(super) fn stamped_before(&self, id: u64, guard: &Guard) -> u64 {
        // SAFETY: Invariant 3.
        let first =
            unsafe { self.head.load(Ordering::Acquire, guard).as_ref() }.filter(|first| first.id == id);
        // SAFETY: likewise.
        let before = first.and_then(|own| unsafe { own.behind(guard).as_ref() });
        before.map_or(0, Version::timestamp)
    }

    /// Cuts off what no transaction can see: what is behind the first version whose id is below
    /// `oldest`, and whose timestamp is not above `oldest_timestamp`. Returns how many versions are
    /// left, and whether the last one is a deleted key's; `None` if a version that is over, or the
    /// version behind it, is kept by its timestamp alone, or is being unlinked.
    pub(super) fn cut(
        &self,
        oldest: u64,
        oldest_timestamp: u64,
        retired: &mut Retired<Version>,
        guard: &Guard,
    ) -> Option<(usize, bool)> {
        let (mut left, mut is_kept) = (0, false);
        let mut at = self.head.load(Ordering::Acquire, guard);
        // SAFETY: Invariant 3, here and below.
        while let Some(version) = unsafe { at.as_ref() } {
            left += 1;
            let is_over = version.id < oldest;
            if is_over && version.timestamp() <= oldest_timestamp {
                // Being unlinked, it is looked at again.
                let mut behind = version.next.cut()?;
                // SAFETY: Invariant 3. Another thread may cut further behind.
                while let Some(cut) = unsafe { behind.as_ref() } {
                    let next = cut.next.take();
                    // SAFETY: no longer in the list, and this thread's alone: Invariant 1 of the
                    // links.
                    unsafe { retired.take(Shared::from(behind.cast_const()), cut.bytes(), guard) };
                    behind = next;
                }
                return (!is_kept).then_some((left, version.value.is_none()));
            }
            is_kept |= is_over;
            at = version.behind(guard);
        }
        (!is_kept).then_some((left, left == 0))
    }

    /// Unlinks the versions behind the newest one that no snapshot needs, now or later, and calls
    /// `keep` for the others: with why, and the bytes. A version behind one that is not over for
    /// all later snapshots is left out: its writer sees to it. Returns the newest one, if it is the
    /// only one.
    ///
    /// One thread at a time does it.
    pub(super) fn prune<'g>(
        &self,
        needs: Needs<'_>,
        retired: &mut Retired<Version>,
        guard: &'g Guard,
        mut keep: impl FnMut(Needed, usize),
    ) -> Option<&'g Version> {
        // SAFETY: Invariant 3, here and below.
        let newest = unsafe { self.head.load(Ordering::Acquire, guard).as_ref() }?;
        let (mut before, mut is_only) = (newest, true);
        loop {
            let behind = before.next.follow();
            // SAFETY: likewise.
            let Some(this) = (unsafe { behind.as_ref() }) else { return is_only.then_some(newest) };
            let needed = if !needs.readers.all_see_later(before.id) {
                None
            } else if before.timestamp() > needs.oldest_timestamp {
                Some(Needed::ByTimestamp)
            } else if let Some(end) = needs.readers.need(this.id, before.id) {
                Some(Needed::Until(end))
            } else {
                // Invariants 4 and 5.
                if before.next.unlink(behind, &this.next) {
                    // SAFETY: no longer in the list, and this thread's alone: Invariant 1 of the
                    // links.
                    unsafe { retired.take(Shared::from(behind.cast_const()), this.bytes(), guard) };
                }
                // Otherwise another thread has cut off one of the two, and so has changed a link.
                continue;
            };
            if let Some(needed) = needed {
                keep(needed, this.bytes());
            }
            (before, is_only) = (this, false);
        }
    }

    /// Closes the list, in which [`Versions::cut`] has left one version at most, if that is still
    /// the only one, and so is in the data component as well (or deleted, where there is none):
    /// then the key may leave the table. `is_last` says of an id whether all see what its
    /// transaction wrote.
    pub(super) fn close(&self, is_last: impl Fn(u64) -> bool, guard: &Guard) -> bool {
        let head = self.head.load(Ordering::Acquire, guard);
        if head.tag() == CLOSED {
            return true;
        }
        // SAFETY: Invariant 3.
        let Some(only) = (unsafe { head.as_ref() }) else {
            let closed = Shared::null().with_tag(CLOSED);
            return self
                .head
                .compare_exchange(head, closed, Ordering::AcqRel, Ordering::Relaxed, guard)
                .is_ok();
        };
        if !is_last(only.id) || !only.next.follow().is_null() {
            return false;
        }
        // Readers that have the list see the version still.
        self.head
            .compare_exchange(head, head.with_tag(CLOSED), Ordering::AcqRel, Ordering::Relaxed, guard)
            .is_ok()
    }
}

impl Drop for Versions {
    fn drop(&mut self) {
        // SAFETY: no other thread has the list any more.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let mut at = self.head.load(Ordering::Relaxed, guard);
        while !at.is_null() {
            // SAFETY: likewise; each is freed once.
            let version = unsafe { at.into_owned() };
            at = version.behind(guard);
        }
    }
}
