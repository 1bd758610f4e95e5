//! Replacing the scale that a lock of strings uses.
//!
//! A taker reads the scale before it locks a word, and an old scale would lead it to a wrong place.
//! So no scale ever changes: a new scale replaces it, and the address of a scale is its version.
//!
//! ```text
//!   taker                                          switching thread
//!   read the scale, find the shard by it           lock all words, one after the other,
//!   lock the word of the shard                       each shard empty and open, or else stop
//!   the same scale still? ── no ──► again          store the new scale
//!   look, take, unlock                             unlock all words
//! ```
//!
//! Invariants:
//! 1. The scale changes only under all words, and only when nothing is held and no shard is closed.
//!    So each range that is held, and each shard that a waiter closed, is where the scale in use
//!    puts it.
//! 2. A thread uses the place that it found by a scale only under a word, after a look there that
//!    the scale is still in use. The scale stays in use as long as the thread holds that word.
//! 3. Waiters keep no place: a node has keys and addresses of slots. So waiters need not know of a
//!    new scale.
//!
//! # Memory orderings
//! The second look is ordered by the word: either its holder locked it before the switching thread
//! did, then it sees the old address, or after, then it sees the new one.

use super::key::Key;
use super::scales::InUse;
use super::slot::FREE;
use super::table::{Table, WIDE_STARVING};
use platform::atomic::Ordering;

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// The scale in use; none if keys tell their positions themselves.
    #[inline(always)]
    pub(super) fn scale(&self) -> Option<&InUse> {
        if !K::BYTES {
            return None;
        }
        let used = self.common.scales.get(&self.common.options)?;
        if used.is_due() { Some(self.switch(used)) } else { Some(used) }
    }

    /// Whether a place that was found by this scale counts. The caller holds a word (Invariant 2).
    #[inline(always)]
    pub(super) fn is_in_use(&self, used: Option<&InUse>) -> bool {
        !K::BYTES || self.common.scales.is(used)
    }

    /// The size of a block in positions, and what outlines leave out of it, both as logarithms.
    #[inline(always)]
    pub(super) fn grid(&self, used: Option<&InUse>) -> (u32, u32) {
        match used {
            Some(InUse { scale, .. }) => (scale.block_log2, scale.coarse_log2),
            None => (self.common.options.block_log2, self.common.coarse_log2),
        }
    }

    /// Uses the better scale, if nothing is held; returns what is in use.
    #[cold]
    #[inline(never)]
    fn switch<'s>(&'s self, used: &'s InUse) -> &'s InUse {
        let Some(better) = used.take_better() else { return used };
        let mut locked = 0;
        let is_empty = self.shards.iter().all(|shard| {
            shard.lock();
            locked += 1;
            // SAFETY: just locked.
            unsafe { shard.is_empty() }
        });
        // SAFETY: all words are held if it is looked at (table.rs, Invariant 2).
        let is_empty = is_empty
            && self.common.special.load(Ordering::Relaxed) < WIDE_STARVING
            && unsafe { self.wide() }.slots().all(|slot| slot.state() == FREE)
            && self.common.scales.is(Some(used));
        let result = if is_empty { Ok(self.common.scales.replace(used, better)) } else { Err(better) };
        for shard in &self.shards[..locked] {
            // SAFETY: locked above.
            unsafe { shard.unlock() };
        }
        result.unwrap_or_else(|better| {
            used.keep_better(better);
            used
        })
    }
}
