//! What is held: shards of the key space, and a list of ranges too wide for shards.
//!
//! Two cores cannot take turns with one cache line more than some ten million times a second,
//! whatever is done with it. So the key space is cut into blocks, and each shard looks after some
//! of them. A range that lies within one block, as nearly all do, concerns one shard. A range over
//! a few blocks (`reach.rs`) takes a slot in each of their shards. A wider range is put into a list
//! of its own. One rule makes that exact: Invariant 1. `words.rs` and `take.rs` follow it.
//!
//! Invariants:
//! 1. A thread that looks for what is in the way of some ranges, and takes them, holds the words of
//!    all the shards that the ranges concern (`reach.rs`) from the first look until everything is
//!    taken. Words are locked in the order of shards.
//! 2. A range that is wide concerns all shards. So a thread that changes the list of wide ranges
//!    holds all the words, and a thread that reads it holds any one of them.
//! 3. Bit [`WIDE`] of `special` says whether the list may have a taken slot. It is set under all
//!    words. It is taken away by a thread that holds any word and found all slots of the list free:
//!    no other thread can have added a range meanwhile.
//! 4. Of two ranges that overlap, both concern the shard of a block in common, or one of them is
//!    wide. So the later taker sees the earlier range.
//! 5. The scale in use says which shards a range of strings concerns. It does not change while any
//!    word is held (`rescale.rs`).
//!
//! # Memory orderings
//! Words order everything but one thing. `special` is read under a word, and changed under all, or
//! under any for what Invariant 3 allows: a thread that takes `WIDE` away releases what it acquired
//! from the wide slots that it found free, and a thread that reads `special` acquires that.

use super::options::Options;
use super::outline::Outline;
use super::scales::Scales;
use super::shard::{CHUNK, Locked, Shard, Spill};
use platform::atomic::{AtomicU32, Ordering};
use platform::cell::UnsafeCell;

/// `special`: there may be wide ranges.
pub(super) const WIDE: u32 = 1;
/// `special`: it is recorded since when ranges are held.
const RECORDED: u32 = 2;
/// `special`: one starving waiter for something wide.
pub(super) const WIDE_STARVING: u32 = 4;

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Common<K> {
    pub(super) special: AtomicU32,
    /// Chunks on the heap.
    chunks: AtomicU32,
    pub(super) coarse_log2: u32,
    pub(super) options: Options,
    wide: UnsafeCell<Spill<K>>,
    pub(super) scales: Scales,
}

/// What is held.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Table<K, const SHARDS: usize, const SLOTS: usize> {
    pub(super) common: Common<K>,
    pub(super) shards: [Shard<K, SLOTS>; SHARDS],
}

platform::os_only! {
    const fn free_shards<K, const SHARDS: usize, const SLOTS: usize>() -> [Shard<K, SLOTS>; SHARDS] {
        [const { Shard::new() }; SHARDS]
    }
}

platform::twins_only! {
    fn free_shards<K, const SHARDS: usize, const SLOTS: usize>() -> [Shard<K, SLOTS>; SHARDS] {
        std::array::from_fn(|_| Shard::new())
    }
}

impl<K, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    platform::const_fn! {
        pub(super) const fn new(options: Options) -> Self {
            const { assert!(SHARDS.is_power_of_two() && SHARDS <= 1024, "shards are a power of two, up to 1024") };
            let common = Common {
                special: AtomicU32::new(if options.recorded { RECORDED } else { 0 }),
                chunks: AtomicU32::new(0),
                coarse_log2: Outline::coarse_log2(options.block_log2),
                options,
                wide: UnsafeCell::new(Spill::new()),
                scales: Scales::new(),
            };
            Table { common, shards: free_shards() }
        }
    }

    #[inline(always)]
    pub(super) const fn options(&self) -> &Options {
        &self.common.options
    }

    /// The wide ranges.
    ///
    /// # Safety
    /// The caller holds a word while the result is used.
    pub(super) unsafe fn wide(&self) -> &Spill<K> {
        // SAFETY: Invariant 2 and the caller's promise.
        self.common.wide.with(|wide| unsafe { &*wide })
    }

    /// The wide ranges, to be changed.
    ///
    /// # Safety
    /// The caller holds all words, and uses one result at a time.
    #[expect(clippy::mut_from_ref, reason = "the words make it exclusive")]
    pub(super) unsafe fn wide_mut(&self) -> &mut Spill<K> {
        // SAFETY: Invariant 2 and the caller's promise.
        self.common.wide.with_mut(|wide| unsafe { &mut *wide })
    }

    /// Gives back the chunks of `spill`.
    pub(super) fn give_back(&self, spill: Spill<K>) {
        let count = spill.count() as u32;
        if count > 0 {
            // Relaxed, here and where it is raised: a count.
            self.common.chunks.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Counts one more chunk, if the limit allows for it.
    pub(super) fn allow_chunk(&self) -> bool {
        let max = self.common.options.spill_max / CHUNK as u32;
        self.common
            .chunks
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1))
            .is_ok()
    }

    /// Ranges taken so far. Those of shards that others are busy with are counted a moment earlier
    /// or later.
    pub(super) fn acquired(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| {
                shard.lock();
                // SAFETY: just locked.
                let _locked = unsafe { Locked::new(shard) };
                // SAFETY: as above.
                unsafe { shard.inner() }.acquired
            })
            .sum()
    }

    /// Slots on the heap.
    pub(super) fn spilled(&self) -> usize {
        self.common.chunks.load(Ordering::Relaxed) as usize * CHUNK
    }
}

// SAFETY: entries are shared under words only, and by their holders (slot.rs, Invariants 1 and 4);
// they are made and dropped by whatever thread. A scale does not change, and what is learnt belongs
// to the holder of its word.
unsafe impl<K: Send + Sync, const SHARDS: usize, const SLOTS: usize> Sync for Table<K, SHARDS, SLOTS> {}
// SAFETY: as above; pointers to slots are made by the table alone, and none exists while it is
// moved.
unsafe impl<K: Send, const SHARDS: usize, const SLOTS: usize> Send for Table<K, SHARDS, SLOTS> {}
