//! How snapshots come about: the session that ends a transaction publishes the next one.
//!
//! The published snapshot never changes; a newer one takes its place by a compare-and-swap. To
//! publish one, a session reads which one is published, collects the ids that are active, and
//! swaps. If another session was faster, it does so once more, and then it is done, whether its
//! swap succeeded or not: the session that was faster the second time had begun to collect after
//! the first swap, and so has seen that our transaction ended. (The argument is that of Jayanti's
//! f-arrays, "f-arrays: implementation and applications", 2002.) So an end takes two rounds at
//! most, however many end at once, and sessions that end at once do each other's work.
//!
//! A swap that succeeds also proves that nothing was published while the ids were collected. So
//! what the collection has of a transaction that is over in the last snapshot is that it is over;
//! what else it shows as over has ended, but was in no snapshot yet, and may come in any order.
//!
//! Invariants:
//! 1. No thread changes what is published. It is freed after it was replaced, when no session reads
//!    a snapshot of its sequence or an earlier one.
//! 2. The session that replaces a snapshot has it to give back, and no other session does.
//!
//! # Memory orderings
//! An end (the slot, then a sequentially consistent fence, then the reading of what is published)
//! against a collection (what is published, then a fence, then the slots) is Dekker's pattern: one
//! sees the other. That is what the argument above needs.

use super::allocation::Allocation;
use super::pin;
use super::session_slots::{SessionSlot, SessionSlots};
use super::snapshot::Snapshot;
use platform::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use platform::cell::UnsafeCell;
use std::ptr::null_mut;

/// A snapshot that is published, or was, or will be.
type Place = UnsafeCell<Snapshot>;

/// The published snapshot.
#[derive(Debug)]
pub(super) struct Published {
    now: AtomicPtr<Place>,
    /// Its sequence, or an earlier one's.
    sequence: AtomicU64,
    /// Its oldest id, or an earlier one's.
    oldest: AtomicU64,
}

/// What a session keeps of the snapshots that it replaced, until no session reads them.
#[derive(Debug, Default)]
#[allow(clippy::vec_box, reason = "their addresses are what is published")]
pub(super) struct Replaced {
    old: Vec<Box<Place>>,
    free: Vec<Box<Place>>,
    /// The number of old ones that could not be given back the last time.
    kept: usize,
}

/// A session gives back when it has replaced this number, and twice the number that it could not
/// give back the last time. Else each end would look at all of them while a stopped thread reads
/// one.
const REPLACED_MAX: usize = 32;

// SAFETY: the thread that has one may read and change what is in it: by Invariants 1 and 2 no other
// thread does.
unsafe impl Send for Replaced {}

impl Published {
    /// No id below `first` was given.
    pub(super) fn new(first: u64) -> Published {
        let snapshot = Snapshot { sequence: 0, current: first, concurrent: Vec::new() };
        Published {
            now: AtomicPtr::new(Box::into_raw(Box::new(UnsafeCell::new(snapshot)))),
            sequence: AtomicU64::new(0),
            oldest: AtomicU64::new(first),
        }
    }

    /// The oldest id of the published snapshot, or of an earlier one.
    pub(super) fn oldest(&self) -> u64 {
        // Acquire: a thread that goes by it has seen that snapshot published.
        self.oldest.load(Ordering::Acquire)
    }

    /// Makes `mine` like what is published, and pins it for the session of this slot.
    #[inline]
    pub(super) fn read(&self, slot: &SessionSlot, mine: &mut Snapshot) {
        // Acquire: what is read is of this sequence at least.
        pin::reads(&slot.pin, self.sequence.load(Ordering::Acquire));
        // Acquire: pairs with the swap.
        let now = self.now.load(Ordering::Acquire);
        // SAFETY: it is published, and pinned: Invariant 1.
        unsafe { &*now }.with(|now| {
            // SAFETY: likewise.
            let now = unsafe { &*now };
            if now.sequence != mine.sequence {
                mine.copy_from(now);
                // Release: the snapshot before is used no more for a thread that sees this one.
                slot.end.store(mine.current, Ordering::Release);
            }
        });
        pin::uses(&slot.pin, mine.oldest());
    }

    /// Publishes that the caller's transaction has ended, which its slot says. The caller's pin is
    /// free for use.
    pub(super) fn end(
        &self,
        allocation: &Allocation,
        slots: &SessionSlots,
        pin: &AtomicU64,
        replaced: &mut Replaced,
    ) {
        if self.publish(allocation, slots, pin, replaced).is_err() {
            // The session that was faster now began after the first one: see the argument.
            let _ = self.publish(allocation, slots, pin, replaced);
        }
        pin::clear(pin);
        if replaced.old.len() >= REPLACED_MAX.max(2 * replaced.kept) {
            replaced.give_back(slots);
        }
    }

    /// Publishes a new snapshot, if no other session does meanwhile.
    fn publish(
        &self,
        allocation: &Allocation,
        slots: &SessionSlots,
        pin: &AtomicU64,
        replaced: &mut Replaced,
    ) -> Result<(), ()> {
        // The fence in it is both: between our end and what is published, and between the pin and
        // that.
        pin::holds(pin, self.sequence.load(Ordering::Acquire));
        let before = self.now.load(Ordering::Acquire);
        // SAFETY: it is published, and pinned: Invariant 1.
        let sequence = unsafe { &*before }.with(|before| unsafe { (*before).sequence }) + 1;
        fence(Ordering::SeqCst);
        let mut place = replaced.free.pop().unwrap_or_default();
        let place_mut = &mut *place;
        let oldest = place_mut.with_mut(|next| {
            // SAFETY: no other thread has it: Invariant 2.
            let next = unsafe { &mut *next };
            (next.sequence, next.current) = (sequence, allocation.current());
            next.concurrent.clear();
            slots.each_active(|slot| next.concurrent.extend(allocation.active_below(slot, next.current)));
            next.concurrent.sort_unstable();
            next.oldest()
        });
        let next = Box::into_raw(place);
        // AcqRel: publishes what is in it; and a thread that succeeds has seen all that the last
        // one had. It cannot be another one at the same place: what we read is pinned.
        match self.now.compare_exchange(before, next, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                // Release: a session that pins by it reads this snapshot, or a later one.
                self.sequence.fetch_max(sequence, Ordering::Release);
                // Release: pairs with `oldest`.
                self.oldest.fetch_max(oldest, Ordering::Release);
                // SAFETY: it came from a box, and is ours by Invariant 2.
                replaced.old.push(unsafe { Box::from_raw(before) });
                Ok(())
            }
            Err(_) => {
                // SAFETY: it came from a box, and was never published.
                replaced.free.push(unsafe { Box::from_raw(next) });
                Err(())
            }
        }
    }
}

impl Replaced {
    /// Makes room of the snapshots that no session reads any more.
    #[cold]
    pub(super) fn give_back(&mut self, slots: &SessionSlots) {
        let least = pin::least_read(slots);
        let (old, free) = (std::mem::take(&mut self.old), &mut self.free);
        for place in old {
            // SAFETY: no thread writes it. Invariant 1.
            if place.with(|place| unsafe { (*place).sequence }) < least {
                // A model checker sees here if a thread still reads it.
                place.with_mut(|_| ());
                free.push(place);
            } else {
                self.old.push(place);
            }
        }
        self.kept = self.old.len();
        // Two are enough for an end.
        self.free.truncate(REPLACED_MAX);
    }
}

/// What sessions left behind that another session was still reading: a stack. A session that ends
/// takes all of it.
#[derive(Debug)]
pub(super) struct Left(AtomicPtr<Rest>);

#[derive(Debug)]
struct Rest {
    replaced: Replaced,
    next: *mut Rest,
}

impl Left {
    pub(super) fn new() -> Left {
        Left(AtomicPtr::new(null_mut()))
    }

    /// Gives back what the caller, whose session ends, has replaced, and what others left; what is
    /// still read stays for the next one.
    pub(super) fn leave(&self, mut replaced: Replaced, slots: &SessionSlots) {
        for rest in self.take_all() {
            replaced.old.extend(rest.old);
        }
        if !replaced.old.is_empty() {
            replaced.give_back(slots);
        }
        if replaced.old.is_empty() {
            return;
        }
        replaced.free = Vec::new();
        let rest = Box::into_raw(Box::new(Rest { replaced, next: null_mut() }));
        // Relaxed: only compared.
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: no other thread has it yet.
            unsafe { (*rest).next = first };
            // Release: pairs with `take_all`.
            match self.0.compare_exchange(first, rest, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    fn take_all(&self) -> Vec<Replaced> {
        let mut all = Vec::new();
        // Acquire: pairs with `leave`. The thread that swaps has all of it alone.
        let mut next = self.0.swap(null_mut(), Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: it came from a box, and is ours.
            let rest = unsafe { Box::from_raw(next) };
            next = rest.next;
            all.push(rest.replaced);
        }
        all
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        self.take_all();
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // SAFETY: it came from a box; there are no sessions any more.
        drop(unsafe { Box::from_raw(self.now.load(Ordering::Acquire)) });
    }
}
