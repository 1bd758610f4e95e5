//! What is held of one part of the key space: a few slots in the lock itself, and more on the heap while they are needed.
//!
//! A shard looks after many keys that are close to each other, and after others that are far from these, as a set of a
//! cache looks after addresses. All but releasing is done under its word.
//!
//! ```text
//!   head (one cache line)                       slots
//!   word | closed | used: a bit a slot | spill ──► chunk ──► chunk     each of CHUNK slots
//! ```
//!
//! Invariants:
//! 1. What is in the head, but for the word, and the list of chunks belong to who holds the word.
//! 2. A slot of the lock itself that is taken has its bit in `used`. A bit may be left of one that was freed.
//! 3. A chunk is taken out of the list only when each of its slots was seen to be free under the word. Nobody
//!    touches a slot after having freed it (`slot.rs`, Invariant 2), so the chunk's memory may then be freed.

use super::key::Key;
use super::request::Want;
use super::slot::{FREE, Slot};
use super::word::Word;
use platform::cell::UnsafeCell;
use std::ops::ControlFlow;
use std::ptr;

/// Slots of a chunk.
pub(super) const CHUNK: usize = 8;

/// Slots on the heap.
#[derive(Debug)]
pub(super) struct Chunk<K> {
    slots: [Slot<K>; CHUNK],
    next: *mut Chunk<K>,
}

impl<K> Chunk<K> {
    pub(super) fn new() -> Box<Chunk<K>> {
        Box::new(Chunk { slots: std::array::from_fn(|_| Slot::new()), next: ptr::null_mut() })
    }
}

/// Chunks of slots, one after the other.
#[derive(Debug)]
pub(super) struct Spill<K>(*mut Chunk<K>);

impl<K> Spill<K> {
    pub(super) const fn new() -> Spill<K> {
        Spill(ptr::null_mut())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Puts a chunk before the others.
    pub(super) fn push(&mut self, mut chunk: Box<Chunk<K>>) {
        chunk.next = self.0;
        self.0 = Box::into_raw(chunk);
    }

    fn chunks(&self) -> impl Iterator<Item = &Chunk<K>> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: chunks of the list live as long as they are in it, and it is borrowed.
            let chunk = unsafe { next.as_ref() }?;
            next = chunk.next;
            Some(chunk)
        })
    }

    /// All slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot<K>> {
        self.chunks().flat_map(|chunk| &chunk.slots)
    }

    /// A free slot.
    pub(super) fn vacant(&self) -> Option<&Slot<K>> {
        self.slots().find(|slot| slot.state() == FREE)
    }

    /// Takes the chunks out that have no taken slot, but for so many; returns them, as a list of their own.
    ///
    /// # Safety
    /// The caller holds the word of the shard, or those of all if the slots are nobody's in particular.
    pub(super) unsafe fn take_empty(&mut self, mut keep: usize) -> Spill<K> {
        let mut empty = Spill::new();
        let mut link: *mut *mut Chunk<K> = &raw mut self.0;
        // SAFETY: `link` points to the list's beginning or to the link of a chunk in it, which this thread alone may change.
        while let Some(chunk) = unsafe { (*link).as_mut() } {
            if chunk.slots.iter().all(|slot| slot.state() == FREE) {
                if keep == 0 {
                    let chunk: *mut Chunk<K> = chunk;
                    // SAFETY: as above; from here on the chunk is in the other list alone (Invariant 3).
                    unsafe {
                        *link = (*chunk).next;
                        (*chunk).next = empty.0;
                    }
                    empty.0 = chunk;
                    continue;
                }
                keep -= 1;
            }
            link = &raw mut chunk.next;
        }
        empty
    }

    /// How many chunks there are.
    pub(super) fn count(&self) -> usize {
        self.chunks().count()
    }
}

impl<K> Drop for Spill<K> {
    fn drop(&mut self) {
        while !self.0.is_null() {
            // SAFETY: made by `push` from a box; the list is this value's.
            let chunk = unsafe { Box::from_raw(self.0) };
            self.0 = chunk.next;
        }
    }
}

/// What is known of a shard beside its slots.
#[derive(Debug)]
pub(super) struct Inner<K> {
    /// Bits of slots that may be taken.
    used: u64,
    /// What is out of the ordinary: [`SPILLED`], and [`CLOSED_ONE`] for each overdue waiter that wants something in here.
    odd: u64,
    /// Ranges that were taken here, for the statistics.
    pub(super) acquired: u64,
    /// More slots.
    spill: Spill<K>,
}

const SPILLED: u64 = 1;
const CLOSED_ONE: u64 = 2;

impl<K> Inner<K> {
    /// Whether somebody overdue wants something in here.
    pub(super) fn is_closed(&self) -> bool {
        self.odd >= CLOSED_ONE
    }

    /// One more of them, or one less.
    pub(super) fn change_closed(&mut self, by: i32) {
        self.odd = self.odd.wrapping_add_signed(i64::from(by) * CLOSED_ONE as i64);
    }
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Head<K> {
    word: Word,
    inner: UnsafeCell<Inner<K>>,
}

/// What is held of one part of the key space.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shard<K, const SLOTS: usize> {
    head: Head<K>,
    slots: [Slot<K>; SLOTS],
}

platform::os_only! {
    const _: () = assert!(size_of::<Shard<u64, 1>>() == 128);

    const fn free_slots<K, const SLOTS: usize>() -> [Slot<K>; SLOTS] {
        [const { Slot::new() }; SLOTS]
    }
}

platform::twins_only! {
    fn free_slots<K, const SLOTS: usize>() -> [Slot<K>; SLOTS] {
        std::array::from_fn(|_| Slot::new())
    }
}

impl<K, const SLOTS: usize> Shard<K, SLOTS> {
    platform::const_fn! {
        pub(super) const fn new() -> Self {
            const { assert!(SLOTS >= 1 && SLOTS <= 64, "a shard has 1 to 64 slots of its own") };
            let inner = Inner { used: 0, odd: 0, acquired: 0, spill: Spill::new() };
            Shard { head: Head { word: Word::new(), inner: UnsafeCell::new(inner) }, slots: free_slots() }
        }
    }

    #[inline(always)]
    pub(super) fn lock(&self) {
        self.head.word.lock();
    }

    /// # Safety
    /// The caller holds the word.
    #[inline(always)]
    pub(super) unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.head.word.unlock() };
    }

    /// What belongs to the holder of the word.
    ///
    /// # Safety
    /// The caller holds the word, and uses one result at a time.
    #[expect(clippy::mut_from_ref, reason = "the word makes it exclusive")]
    #[inline(always)]
    pub(super) unsafe fn inner(&self) -> &mut Inner<K> {
        // SAFETY: Invariant 1 and the caller's promise.
        self.head.inner.with_mut(|inner| unsafe { &mut *inner })
    }

    /// Shows the slots of the lock itself that are taken, each with its state, until one of them breaks; returns the bits of those
    /// that may be taken, which are fewer than it was told if some were freed.
    #[inline(always)]
    fn each_inline<B>(
        &self,
        used: u64,
        mut visit: impl FnMut(&Slot<K>, u64) -> ControlFlow<B>,
    ) -> (u64, ControlFlow<B>) {
        let (mut left, mut used) = (used, used);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            let slot = &self.slots[bit.trailing_zeros() as usize % SLOTS];
            let state = slot.state();
            if state == FREE {
                used ^= bit;
                continue;
            }
            let ended = visit(slot, state);
            if ended.is_break() {
                return (used, ended);
            }
        }
        (used, ControlFlow::Continue(()))
    }

    /// All slots that are taken, each with its state, until one of them breaks.
    ///
    /// # Safety
    /// The caller holds the word.
    pub(super) unsafe fn each<B>(
        &self,
        mut visit: impl FnMut(&Slot<K>, u64) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let (used, ended) = self.each_inline(inner.used, &mut visit);
        // Invariant 2: what is free can be taken by the word only.
        inner.used = used;
        ended?;
        each_of(&inner.spill, visit)
    }

    /// A free slot of the lock itself, after [`Shard::each`] has looked: it has its bit from now on.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot.
    #[inline(always)]
    unsafe fn vacant_inline(&self) -> Option<&Slot<K>> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let index = inner.used.trailing_ones() as usize;
        let slot = self.slots.get(index)?;
        inner.used |= 1 << index;
        Some(slot)
    }

    /// A free slot, if there is one.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot.
    pub(super) unsafe fn vacant(&self) -> Option<&Slot<K>> {
        // SAFETY: the caller's promise.
        unsafe { self.vacant_inline().or_else(|| self.inner().spill.vacant()) }
    }

    /// Adds slots.
    ///
    /// # Safety
    /// The caller holds the word.
    pub(super) unsafe fn push(&self, chunk: Box<Chunk<K>>) {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        inner.spill.push(chunk);
        inner.odd |= SPILLED;
    }

    /// Chunks that are not needed any more, if the lock's own slots are enough again.
    ///
    /// # Safety
    /// The caller holds the word.
    pub(super) unsafe fn take_empty(&self) -> Option<Spill<K>> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        if inner.odd & SPILLED == 0 || inner.used.count_ones() as usize > SLOTS / 2 {
            return None;
        }
        // SAFETY: as above.
        let empty = unsafe { inner.spill.take_empty(0) };
        if inner.spill.is_empty() {
            inner.odd &= !SPILLED;
        }
        Some(empty)
    }
}

/// The taken ones of these slots, each with its state, until one of them breaks.
pub(super) fn each_of<K, B>(
    spill: &Spill<K>,
    mut visit: impl FnMut(&Slot<K>, u64) -> ControlFlow<B>,
) -> ControlFlow<B> {
    for slot in spill.slots() {
        let state = slot.state();
        if state != FREE {
            visit(slot, state)?;
        }
    }
    ControlFlow::Continue(())
}

impl<K: Key, const SLOTS: usize> Shard<K, SLOTS> {
    /// The common case: nothing is in the way, nobody overdue wants anything here, and there is room in the lock itself.
    /// Otherwise the answer is `None`, and nothing has been learnt.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot.
    #[inline(always)]
    pub(super) unsafe fn vacant_for(&self, want: &Want<'_, K>) -> Option<&Slot<K>> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        if inner.odd != 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        let blocked = |slot: &Slot<K>, state| match unsafe { want.is_blocked_by(slot, state) } {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let (used, ended) = self.each_inline(inner.used, blocked);
        if ended.is_break() {
            return None;
        }
        let slot = self.slots.get(used.trailing_ones() as usize)?;
        inner.used = used | 1 << used.trailing_ones();
        inner.acquired += 1;
        Some(slot)
    }
}
