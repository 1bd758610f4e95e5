//! One held range, and the word that says so.
//!
//! A range over several shards has a slot in each. The slots are chained, and the holder of the
//! first one holds the range ([`Held`]). Releasing is one step on the word and needs no shard's
//! lock. That step tells at once whether a waiter waits.
//!
//! | bits of the word | meaning |
//! | --- | --- |
//! | 0 | [`TAKEN`]: the slot has a holder |
//! | 1 | [`SHARED`]: others may share it |
//! | 2 | [`AWAITED`]: the thread that releases it has to look into the wait queue |
//! | 3 | [`HEAD`]: the first slot of its range |
//! | 4 to 31 | the identity of the holder ([`Holder`]) |
//! | 32 to 63 | since when, in 2^20 ns of the monotonic clock; 0: not recorded |
//!
//! A word of 0 is a free slot.
//!
//! Invariants:
//! 1. The entry of a free slot is written only by the holder of the word of the slot's shard, and
//!    the state is stored last, under that same word. From then on the entry does not change until
//!    the slot is free.
//! 2. The step that makes a state 0 is the holder's only one to do so, and its last on the slot.
//! 3. `AWAITED` is set under the word of the slot's shard, by a step that finds the slot taken. So
//!    either the releasing step sees it, or the thread that sets it sees a free slot.
//! 4. Entries are read under the word of the slot's shard. The holder of a slot reads its own entry
//!    at any time, because no thread changes it.
//!
//! # Memory orderings
//! Freeing releases; looking at a state acquires. So a thread that finds a slot free sees all that
//! was done while it was held. (The thread then takes the slot, or a range that the slot kept from
//! being taken.) Taking is ordered by the shard's word.

use super::holder::{self, Holder};
use super::raw::Access;
use super::span::Span;
use platform::atomic::{AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use std::ptr;

pub(super) const FREE: u64 = 0;
pub(super) const TAKEN: u64 = 1;
pub(super) const SHARED: u64 = 2;
pub(super) const AWAITED: u64 = 4;
pub(super) const HEAD: u64 = 8;
const HOLDER_SHIFT: u32 = 4;
const SINCE_SHIFT: u32 = HOLDER_SHIFT + holder::BITS;
/// A unit of time.
const SINCE_UNIT_LOG2: u32 = 20;

/// The state of a slot that is taken like this.
#[inline(always)]
pub(super) fn taken(access: Access, holder: Holder) -> u64 {
    let shared = if access == Access::Shared { SHARED } else { 0 };
    TAKEN | shared | u64::from(holder.to_bits()) << HOLDER_SHIFT
}

/// What is added to a state for a slot that is taken now.
pub(super) fn since(now_ns: u64) -> u64 {
    (now_ns >> SINCE_UNIT_LOG2).clamp(1, u64::from(u32::MAX)) << SINCE_SHIFT
}

/// How others may hold what is in this state.
#[inline(always)]
pub(super) fn access(state: u64) -> Access {
    if state & SHARED == 0 { Access::Exclusive } else { Access::Shared }
}

/// Returns the holder of what is in this state.
pub(super) fn holder(state: u64) -> Holder {
    Holder::from_bits((state >> HOLDER_SHIFT) as u32)
}

/// Since when, in nanoseconds of the monotonic clock, give or take a millisecond, if that was
/// recorded.
pub(super) fn since_ns(state: u64) -> Option<u64> {
    match state >> SINCE_SHIFT {
        0 => None,
        units => Some(units << SINCE_UNIT_LOG2),
    }
}

/// What is held.
#[derive(Debug)]
pub(super) struct Entry<K> {
    /// The next slot of the same range.
    pub(super) next: *const Slot<K>,
    pub(super) span: Span<K>,
}

/// A place for one held range.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Slot<K> {
    state: AtomicU64,
    entry: UnsafeCell<Entry<K>>,
}

platform::os_only! {
    const _: () = assert!(size_of::<Slot<u64>>() == 48);
}

impl<K> Slot<K> {
    platform::const_fn! {
        pub(super) const fn new() -> Slot<K> {
            Slot {
                state: AtomicU64::new(FREE),
                entry: UnsafeCell::new(Entry { next: ptr::null(), span: Span::all() }),
            }
        }
    }

    /// Returns the state. A thread that finds [`FREE`] sees what the last holder did.
    #[inline(always)]
    pub(super) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    /// The entry.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard, or the slot; and keeps holding it while the
    /// result is used.
    #[inline(always)]
    pub(super) unsafe fn entry(&self) -> &Entry<K> {
        // SAFETY: no thread writes meanwhile, by Invariants 1 and 4.
        self.entry.with(|entry| unsafe { &*entry })
    }

    /// Takes the slot; returns what it held last.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard, and found the slot free under it.
    #[inline(always)]
    pub(super) unsafe fn take(&self, entry: Entry<K>, state: u64) -> Entry<K> {
        // SAFETY: Invariant 1: the slot is free, and the word keeps all others away.
        let old = self.entry.with_mut(|place| unsafe { std::mem::replace(&mut *place, entry) });
        // Relaxed: published by the unlocking of the word; the holder gets it from the thread that
        // took it.
        self.state.store(state, Ordering::Relaxed);
        old
    }

    /// Marks the slot as awaited, if it is still taken. Returns whether it is.
    ///
    /// # Safety
    /// The caller holds the word of the slot's shard.
    pub(super) unsafe fn await_release(&self) -> bool {
        // Relaxed: the exchange decides.
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            if seen == FREE {
                // Acquire by a second look: a thread that finds it free goes on.
                return self.state() != FREE;
            }
            // Acquire on failure would do as well; Invariant 3 needs the step alone.
            match self.state.compare_exchange_weak(seen, seen | AWAITED, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Frees the slot if no waiter waits for it.
    ///
    /// # Safety
    /// The caller holds the slot, and no more if the answer is true.
    #[inline(always)]
    pub(super) unsafe fn try_free(&self) -> bool {
        // Relaxed: only `AWAITED` can have been added since.
        let seen = self.state.load(Ordering::Relaxed);
        seen & AWAITED == 0
            && self.state.compare_exchange(seen, FREE, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Frees the slot. Returns whether a waiter waits for it.
    ///
    /// # Safety
    /// The caller holds the slot, and does not afterwards.
    pub(super) unsafe fn free(&self) -> bool {
        self.state.swap(FREE, Ordering::Release) & AWAITED != 0
    }
}

/// A range that is held: the first of its slots.
///
/// Invariant 5: the holder of this value holds each slot of the chain.
#[derive(Debug)]
pub(super) struct Held<K>(pub(super) *const Slot<K>);

// SAFETY: it is an address. A use of what it leads to is unsafe by itself. Releasing is a step on
// an atomic word and, if a waiter waits, work under the wait queue's mutex: any thread may do it.
unsafe impl<K: Send + Sync> Send for Held<K> {}
// SAFETY: as above; what a shared one leads to is the span, which no thread changes.
unsafe impl<K: Send + Sync> Sync for Held<K> {}

impl<K> Clone for Held<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Held<K> {}

impl<K> PartialEq for Held<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K> Held<K> {
    /// The slots of the range.
    ///
    /// # Safety
    /// The range is held as long as the result is used, but for the slots that were returned
    /// already.
    pub(super) unsafe fn slots(self) -> impl Iterator<Item = *const Slot<K>> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            let slot = next;
            if slot.is_null() {
                return None;
            }
            // SAFETY: Invariant 5, and the slot after this one is read before the caller can free
            // this one.
            next = unsafe { (*slot).entry().next };
            Some(slot)
        })
    }

    /// The range.
    ///
    /// # Safety
    /// It is held as long as the result is used.
    pub(super) unsafe fn span<'a>(self) -> &'a Span<K> {
        // SAFETY: Invariant 5.
        unsafe { &(*self.0).entry().span }
    }

    /// How it is held.
    ///
    /// # Safety
    /// It is held.
    pub(super) unsafe fn access(self) -> Access {
        // SAFETY: Invariant 5.
        access(unsafe { (*self.0).state() })
    }
}
