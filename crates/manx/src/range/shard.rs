//! What is held of one part of the key space: a few slots in the lock itself, and more on the heap
//! while they are needed.
//!
//! A shard looks after many keys that are close to each other, and after others that are far from
//! these, as a set of a cache looks after addresses. All but releasing is done under its word.
//!
//! ```text
//!   head (a cache line, or two)                                slots
//!   word | odd | used: a bit a slot | outlines: one a slot | spill ──► chunk ──► chunk     each of CHUNK slots
//! ```
//!
//! Invariants:
//! 1. What is in the head, but for the word, and the list of chunks belong to the holder of the
//!    word.
//! 2. A slot of the lock itself that is taken has its bit in `used`. A bit may be left of a slot
//!    that was freed.
//! 3. A slot with a bit has its range's outline beside the word: two ranges of this shard that
//!    overlap have outlines that overlap.
//! 4. A chunk is taken out of the list only when each of its slots was seen to be free under the
//!    word. No thread touches a slot after it has freed the slot (`slot.rs`, Invariant 2), so the
//!    chunk's memory may then be freed.

use super::key::Key;
use super::outline::Outline;
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

    /// Takes out the chunks that have no taken slot, but for `keep` of them. Returns the chunks
    /// that it took out, as a list of their own.
    ///
    /// # Safety
    /// The caller holds the word of the shard, or the words of all shards if the slots are no
    /// shard's in particular.
    pub(super) unsafe fn take_empty(&mut self, mut keep: usize) -> Spill<K> {
        let mut empty = Spill::new();
        let mut link: *mut *mut Chunk<K> = &raw mut self.0;
        // SAFETY: `link` points to the list's beginning or to the link of a chunk in it, which this
        // thread alone may change.
        while let Some(chunk) = unsafe { (*link).as_mut() } {
            if chunk.slots.iter().all(|slot| slot.state() == FREE) {
                if keep == 0 {
                    let chunk: *mut Chunk<K> = chunk;
                    // SAFETY: as above; from here on the chunk is in the other list alone
                    // (Invariant 4).
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
#[repr(C)]
pub(super) struct Inner<K, const SLOTS: usize> {
    /// What is out of the ordinary: [`SPILLED`], and [`CLOSED_ONE`] for each starving waiter that
    /// wants something in here.
    odd: u32,
    /// Bits of slots that may be taken.
    used: u32,
    /// Ranges that were taken here, for the statistics.
    pub(super) acquired: u64,
    outlines: [Outline; SLOTS],
    /// More slots.
    spill: Spill<K>,
}

/// The number of outlines that are compared at once: those in the cache line of the word.
const LINE: usize = 8;
/// The preferred slots of two threads in a row are this number of slots apart, and in different
/// cache lines.
const APART: usize = 2;

const SPILLED: u32 = 1;
const CLOSED_ONE: u32 = 2;

impl<K, const SLOTS: usize> Inner<K, SLOTS> {
    /// Whether a starving waiter wants keys of this shard, so that newcomers may not take any.
    pub(super) fn is_closed(&self) -> bool {
        self.odd >= CLOSED_ONE
    }

    /// Adds `by` to the number of starving waiters that want keys of this shard.
    pub(super) fn change_closed(&mut self, by: i32) {
        self.odd = self.odd.wrapping_add_signed(by * CLOSED_ONE as i32);
    }
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Head<K, const SLOTS: usize> {
    word: Word,
    inner: UnsafeCell<Inner<K, SLOTS>>,
}

/// What is held of one part of the key space.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Shard<K, const SLOTS: usize> {
    head: Head<K, SLOTS>,
    slots: [Slot<K>; SLOTS],
}

platform::os_only! {
    const _: () = assert!(size_of::<Shard<u64, 1>>() == 128);
    const _: () = assert!(std::mem::offset_of!(Inner<u64, 16>, outlines) + LINE * size_of::<Outline>() <= 56);
    const _: () = assert!(APART * size_of::<Slot<u64>>() >= 64);

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
            const { assert!(SLOTS >= 1 && SLOTS <= 32, "a shard has 1 to 32 slots of its own") };
            let inner =
                Inner { odd: 0, outlines: [Outline::WHOLE; SLOTS], used: 0, acquired: 0, spill: Spill::new() };
            Shard { head: Head { word: Word::new(), inner: UnsafeCell::new(inner) }, slots: free_slots() }
        }
    }

    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline(always)]
    pub(super) fn try_lock(&self) -> bool {
        self.head.word.try_lock()
    }

    /// Waits for the word, which was found taken.
    pub(super) fn lock_contended(&self) {
        self.head.word.lock_contended();
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
    pub(super) unsafe fn inner(&self) -> &mut Inner<K, SLOTS> {
        // SAFETY: Invariant 1 and the caller's promise.
        self.head.inner.with_mut(|inner| unsafe { &mut *inner })
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
        for (index, slot) in self.slots.iter().enumerate() {
            if inner.used & 1 << index == 0 {
                continue;
            }
            match slot.state() {
                // Invariant 2: what is free can be taken by the word only.
                FREE => inner.used &= !(1 << index),
                state => visit(slot, state)?,
            }
        }
        each_of(&inner.spill, visit)
    }

    /// Whether this shard has no held range and no starving waiter.
    ///
    /// # Safety
    /// The caller holds the word.
    pub(super) unsafe fn is_empty(&self) -> bool {
        // SAFETY: the caller's promise, here and below.
        !unsafe { self.inner() }.is_closed()
            && unsafe { self.each(|_, _| ControlFlow::Break(())) }.is_continue()
    }

    /// A free slot, if there is one, after [`Shard::each`] has looked.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot for a range of this shard.
    pub(super) unsafe fn vacant(&self) -> Option<&Slot<K>> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let index = inner.used.trailing_ones() as usize;
        match self.slots.get(index) {
            Some(slot) => {
                inner.used |= 1 << index;
                inner.outlines[index] = Outline::WHOLE;
                Some(slot)
            }
            None => inner.spill.vacant(),
        }
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

/// The word of a shard, held; unlocked when this is dropped.
pub(super) struct Locked<'a, K, const SLOTS: usize>(&'a Shard<K, SLOTS>);

impl<'a, K, const SLOTS: usize> Locked<'a, K, SLOTS> {
    /// # Safety
    /// The caller holds the word. From now on the result unlocks it.
    pub(super) unsafe fn new(shard: &'a Shard<K, SLOTS>) -> Self {
        Locked(shard)
    }
}

impl<K, const SLOTS: usize> Drop for Locked<'_, K, SLOTS> {
    fn drop(&mut self) {
        // SAFETY: the promise made to `new`.
        unsafe { self.0.unlock() };
    }
}

/// The result of a search for a slot for a range.
pub(super) enum Vacant<'a, K> {
    /// This slot is free for the range.
    Slot(&'a Slot<K>),
    /// Something that is held is in its way.
    Blocked,
    /// The search did not tell: the general way has to.
    Unknown,
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

impl<K, const SLOTS: usize> Shard<K, SLOTS> {
    /// Returns the preferred slot in the common case: nothing is held in here, and no starving
    /// waiter wants anything. Otherwise the answer is `None`, and nothing has been learnt.
    /// `outline` is of the range that is wanted. A thread that prefers the same slot each time
    /// finds it in its cache.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot.
    #[inline(always)]
    pub(super) unsafe fn only(&self, outline: Outline, preferred: usize) -> Option<&Slot<K>> {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        let index = preferred * APART % SLOTS;
        let bit = 1 << index;
        // Invariant 2: a slot without a bit is free.
        if inner.odd != 0 || inner.used & !bit != 0 || self.slots[index].state() != FREE {
            return None;
        }
        inner.used = bit;
        inner.outlines[index] = outline;
        Some(&self.slots[index])
    }

    /// The same if something is held, but nothing is in the way, and there is room in the lock
    /// itself.
    ///
    /// # Safety
    /// The caller holds the word, and takes the slot.
    #[inline(always)]
    pub(super) unsafe fn vacant_for(
        &self,
        want: &Want<'_, K>,
        outline: Outline,
        preferred: usize,
    ) -> Vacant<'_, K>
    where
        K: Key,
    {
        // SAFETY: the caller's promise.
        let inner = unsafe { self.inner() };
        if inner.odd != 0 {
            return Vacant::Unknown;
        }
        // SAFETY: likewise.
        let Some(used) = (unsafe { self.used_beside(inner.used, want, outline) }) else {
            return Vacant::Blocked;
        };
        let mut index = preferred * APART % SLOTS;
        if self.slots[index].state() != FREE {
            let Some(other) = self.other_than(used) else { return Vacant::Unknown };
            index = other;
        }
        inner.used = used | 1 << index;
        inner.outlines[index] = outline;
        Vacant::Slot(&self.slots[index])
    }

    /// Returns the bits of the slots that are still used, or `None` if one of these slots is in the
    /// range's way.
    ///
    /// # Safety
    /// The caller holds the word.
    #[inline(always)]
    unsafe fn used_beside(&self, mut used: u32, want: &Want<'_, K>, outline: Outline) -> Option<u32>
    where
        K: Key,
    {
        let mut near = 0;
        // SAFETY: the caller holds the word.
        let outlines = unsafe { &self.inner().outlines };
        for (number, line) in outlines.chunks(LINE).enumerate() {
            // Those of the second line are needed seldom.
            let first = number * LINE;
            if used >> first == 0 {
                break;
            }
            for (index, other) in line.iter().enumerate() {
                near |= u32::from(other.may_overlap(outline)) << (first + index);
            }
        }
        near &= used;
        while near != 0 {
            let bit = near & near.wrapping_neg();
            near ^= bit;
            let slot = &self.slots[bit.trailing_zeros() as usize % SLOTS];
            match slot.state() {
                FREE => used ^= bit,
                // SAFETY: the word of the slot's shard is held.
                state if unsafe { want.is_blocked_by(slot, state) } => return None,
                _ => {}
            }
        }
        Some(used)
    }

    /// A slot that is free, although it is not the preferred one.
    fn other_than(&self, used: u32) -> Option<usize> {
        let unused = used.trailing_ones() as usize;
        if unused < SLOTS { Some(unused) } else { self.slots.iter().position(|slot| slot.state() == FREE) }
    }
}
