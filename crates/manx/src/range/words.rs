//! The words of some shards, held together: locked in the order of shards, so that no two threads
//! wait for each other.

use super::key::Key;
use super::reach::Reach;
use super::request::Request;
use super::scales::{self, InUse};
use super::shard::{Shard, each_of};
use super::slot::Slot;
use super::span::Span;
use super::table::Table;
use std::ops::ControlFlow;

/// The words of a reach, held.
pub(super) struct Words<'a, K, const SHARDS: usize, const SLOTS: usize> {
    table: &'a Table<K, SHARDS, SLOTS>,
    pub(super) reach: Reach,
    /// The scale by which the words were found.
    pub(super) used: Option<&'a InUse>,
}

impl<K, const SHARDS: usize, const SLOTS: usize> Words<'_, K, SHARDS, SLOTS> {
    /// Shows each taken slot of the shards of these words, and of the wide ranges, with its state,
    /// until `visit` breaks.
    pub(super) fn each<B>(&self, mut visit: impl FnMut(&Slot<K>, u64) -> ControlFlow<B>) -> ControlFlow<B> {
        for shard in self.table.reached(&self.reach) {
            // SAFETY: locked in `words`.
            unsafe { shard.each(&mut visit) }?;
        }
        // SAFETY: a word is held (table.rs, Invariant 2).
        each_of(unsafe { self.table.wide() }, visit)
    }
}

impl<K, const SHARDS: usize, const SLOTS: usize> Drop for Words<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        for shard in self.table.reached(&self.reach) {
            // SAFETY: locked in `words`.
            unsafe { shard.unlock() };
        }
    }
}

impl<K, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// The shards of a reach, in order.
    pub(super) fn reached(&self, reach: &Reach) -> impl Iterator<Item = &Shard<K, SLOTS>> {
        let all: &[_] = if matches!(reach, Reach::All) { &self.shards } else { &[] };
        all.iter().chain(reach.few().iter().map(|index| &self.shards[usize::from(*index)]))
    }

    /// Locks the words of a reach.
    pub(super) fn words(&self, reach: Reach) -> Words<'_, K, SHARDS, SLOTS> {
        for shard in self.reached(&reach) {
            shard.lock();
        }
        Words { table: self, reach, used: None }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Table<K, SHARDS, SLOTS> {
    /// Locks the words of the shards that the ranges of a request concern.
    pub(super) fn words_for(&self, request: &Request<'_, K>) -> Words<'_, K, SHARDS, SLOTS> {
        loop {
            let used = self.scale();
            let reaches = request.spans.iter().map(|span| self.reach_of(span, used));
            let mut words = self.words(reaches.fold(Reach::NONE, Reach::and));
            words.used = used;
            // Scales change seldom, and at most `SCALES_MAX` times (rescale.rs, Invariant 2;
            // scales.rs, Invariant 1).
            if self.is_in_use(used) {
                return words;
            }
        }
    }

    /// The shards that a range concerns by a scale.
    pub(super) fn reach_of(&self, span: &Span<K>, used: Option<&InUse>) -> Reach {
        let (first, last) = scales::ends(span, used);
        let mask = used.map_or(u64::MAX, |used| used.scale.mask());
        Reach::of::<SHARDS>(first, last, self.grid(used).0, mask)
    }
}
