//! An ordered map under a mutex, and a condition variable: what a programmer writes that needs a
//! range lock by noon.
//!
//! Every program that has ranges to lock and no range lock has one of these. It is short, correct,
//! and blocks; it is hard to beat with few threads, and all of them pass through one mutex.
//!
//! The map holds *pieces*, which have no key in common, by their first keys. An exclusive range is
//! one piece. Shared ranges may overlap each other, so theirs are cut where one of them begins or
//! ends, and each piece counts how many share it:
//!
//! ```text
//!   held, shared:   [0 ........ 9]          pieces:  [0, 4] 1    [5, 9] 2    [10, 14] 1
//!                        [5 ........ 14]
//! ```
//!
//! Hence the search for a conflict is one look-up for a thread that wants to be alone: of all
//! pieces that begin before its end, the last one ends highest. A reader looks at the pieces that
//! it overlaps.
//!
//! Waiting is a plain condition variable. A release that finds threads waiting wakes all of them,
//! since it does not know which of them it concerns; each looks again. So no thread sleeps through
//! the release that it waits for. But there is no turn either: a thread that wants much may wait
//! for as long as others want little.
//!
//! Invariants, under the mutex:
//! 1. Pieces have no key in common. A key is in a piece exactly if a thread holds it.
//! 2. A piece is [`ALONE`], and then it is one exclusive range, or its number is of the readers of
//!    each of its keys.
//! 3. A piece of readers begins or ends within another's reach only where a held range begins or
//!    ends. So there are at most twice as many pieces as held ranges.
//! 4. A sleeper is counted in `waiting`, and looked in vain after the last release that did not
//!    wake it.
//!
//! # Memory orderings
//! The mutex's. The state is never left halfway by a panic, so a poisoned mutex is used as it is.

use manx::range::{Access, RawRangeLock, Span};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Instead of the number of readers of a piece: it has none.
const ALONE: u32 = 0;

/// `std::sync::Mutex` around a `BTreeMap`, with a `Condvar`. See the module's text.
#[derive(Debug, Default)]
pub struct Map {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pieces: Pieces,
    /// Threads that sleep, or are about to.
    waiting: usize,
}

/// What a holder of a range of [`Map`] keeps.
#[derive(Debug)]
pub struct MapHeld {
    first: u64,
    last: u64,
    access: Access,
}

impl MapHeld {
    fn of(span: &Span<u64>, access: Access) -> MapHeld {
        MapHeld { first: span.first(), last: span.last(), access }
    }
}

impl Map {
    /// Makes a lock that no thread holds.
    pub const fn new() -> Map {
        Map {
            state: Mutex::new(State { pieces: Pieces(BTreeMap::new()), waiting: 0 }),
            released: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn lock_contended<'a>(&'a self, mut state: MutexGuard<'a, State>, wanted: &MapHeld) {
        state.waiting += 1;
        loop {
            state = self.released.wait(state).unwrap_or_else(PoisonError::into_inner);
            if state.pieces.take(wanted) {
                state.waiting -= 1;
                return;
            }
        }
    }
}

// SAFETY: ranges are taken and given back under the mutex, and by Invariants 1 and 2 only if no
// conflicting one is held.
unsafe impl RawRangeLock for Map {
    type Held = MapHeld;
    const NAME: &'static str = "map";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Map {
        Map::new()
    }

    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<MapHeld> {
        let wanted = MapHeld::of(span, access);
        self.state().pieces.take(&wanted).then_some(wanted)
    }

    fn lock(&self, span: &Span<u64>, access: Access) -> MapHeld {
        let wanted = MapHeld::of(span, access);
        let mut state = self.state();
        if !state.pieces.take(&wanted) {
            self.lock_contended(state, &wanted);
        }
        wanted
    }

    unsafe fn unlock(&self, held: MapHeld) {
        let mut state = self.state();
        state.pieces.give_back(&held);
        let wakes = state.waiting > 0;
        // A thread that is woken wants the mutex next.
        drop(state);
        if wakes {
            self.released.notify_all();
        }
    }
}

/// A range in which no other holder has a part, or which the same holders share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The last key that belongs to it.
    last: u64,
    sharers: u32,
}

/// The pieces, by their first keys.
#[derive(Debug, Default)]
struct Pieces(BTreeMap<u64, Piece>);

impl Pieces {
    /// Takes the range, if no conflicting one is held.
    fn take(&mut self, wanted: &MapHeld) -> bool {
        let &MapHeld { first, last, access } = wanted;
        // By Invariant 1 the piece that begins last before the end also ends last.
        let overlaps = self.0.range(..=last).next_back().is_some_and(|(_, piece)| piece.last >= first);
        if !overlaps {
            let sharers = if access == Access::Exclusive { ALONE } else { 1 };
            self.0.insert(first, Piece { last, sharers });
            return true;
        }
        access == Access::Shared && self.share(first, last)
    }

    /// Adds a reader of this range, unless a part of it is held exclusively. Returns whether it
    /// did.
    fn share(&mut self, first: u64, last: u64) -> bool {
        let mut overlapping = self.0.range(..=last).rev().take_while(|(_, piece)| piece.last >= first);
        if overlapping.any(|(_, piece)| piece.sharers == ALONE) {
            return false;
        }
        self.cut_out(first, last);
        // What lies between the pieces belonged to no holder, so the new reader is its only one.
        let mut gaps = Vec::new();
        let mut next = Some(first);
        for (&start, piece) in self.0.range_mut(first..=last) {
            if let Some(gap) = next
                && gap < start
            {
                gaps.push((gap, start - 1));
            }
            piece.sharers += 1;
            next = piece.last.checked_add(1);
        }
        if let Some(gap) = next
            && gap <= last
        {
            gaps.push((gap, last));
        }
        self.0.extend(gaps.into_iter().map(|(start, last)| (start, Piece { last, sharers: 1 })));
        true
    }

    fn give_back(&mut self, held: &MapHeld) {
        let &MapHeld { first, last, access } = held;
        if access == Access::Exclusive {
            self.0.remove(&first);
            return;
        }
        if self.0.get(&first) == Some(&Piece { last, sharers: 1 }) {
            // No other holder has a part in it, so there is nothing to cut, and the neighbours do
            // not meet.
            self.0.remove(&first);
            return;
        }
        self.cut_out(first, last);
        let emptied: Vec<u64> = self
            .0
            .range_mut(first..=last)
            .filter_map(|(&start, piece)| {
                piece.sharers -= 1;
                (piece.sharers == 0).then_some(start)
            })
            .collect();
        for start in emptied {
            self.0.remove(&start);
        }
        // Invariant 3.
        self.join_before(first);
        if let Some(after) = last.checked_add(1) {
            self.join_before(after);
        }
    }

    /// Makes pieces begin at `first` and end at `last`, where any contain these keys.
    fn cut_out(&mut self, first: u64, last: u64) {
        self.cut_before(first);
        if let Some(after) = last.checked_add(1) {
            self.cut_before(after);
        }
    }

    fn cut_before(&mut self, key: u64) {
        if let Some((_, piece)) = self.0.range_mut(..key).next_back()
            && piece.last >= key
        {
            let behind = *piece;
            piece.last = key - 1;
            self.0.insert(key, behind);
        }
    }

    /// Makes one of the piece that begins with `key` and the one before it, if as many share each
    /// and both are shared.
    fn join_before(&mut self, key: u64) {
        let Some(&behind) = self.0.get(&key) else { return };
        if let Some((_, piece)) = self.0.range_mut(..key).next_back()
            && behind.sharers != ALONE
            && piece.sharers == behind.sharers
            && piece.last.checked_add(1) == Some(key)
        {
            piece.last = behind.last;
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(first: u64, last: u64) -> MapHeld {
        MapHeld { first, last, access: Access::Shared }
    }

    fn listed(pieces: &Pieces) -> Vec<(u64, u64, u32)> {
        pieces.0.iter().map(|(&first, piece)| (first, piece.last, piece.sharers)).collect()
    }

    #[test]
    fn shared_ranges_are_cut_where_others_end_and_joined_again() {
        let mut pieces = Pieces::default();
        let (one, two) = (shared(0, 9), shared(5, 14));
        assert!(pieces.take(&one) && pieces.take(&two));
        assert_eq!(listed(&pieces), [(0, 4, 1), (5, 9, 2), (10, 14, 1)]);
        pieces.give_back(&one);
        assert_eq!(listed(&pieces), [(5, 14, 1)]);
        pieces.give_back(&two);
        assert_eq!(listed(&pieces), []);
    }

    #[test]
    fn short_ranges_within_a_long_one_leave_nothing_behind() {
        let mut pieces = Pieces::default();
        let everything = shared(0, u64::MAX);
        assert!(pieces.take(&everything));
        for key in (0..1_000).chain([u64::MAX]) {
            let point = shared(key, key);
            assert!(pieces.take(&point));
            assert!(pieces.0.len() <= 3);
            pieces.give_back(&point);
        }
        assert_eq!(listed(&pieces), [(0, u64::MAX, 1)]);
    }

    #[test]
    fn gaps_between_shared_ranges_are_shared_once() {
        let mut pieces = Pieces::default();
        let held = [shared(2, 3), shared(6, 7), shared(0, 9)];
        assert!(held.iter().all(|range| pieces.take(range)));
        assert_eq!(listed(&pieces), [(0, 1, 1), (2, 3, 2), (4, 5, 1), (6, 7, 2), (8, 9, 1)]);
        held.iter().for_each(|range| pieces.give_back(range));
        assert_eq!(listed(&pieces), []);
    }

    #[test]
    fn neighbours_that_were_joined_are_cut_again() {
        let mut pieces = Pieces::default();
        let held = [shared(0, 4), shared(5, 9), shared(3, 6)];
        assert!(held.iter().all(|range| pieces.take(range)));
        pieces.give_back(&held[2]);
        pieces.give_back(&held[1]);
        assert_eq!(listed(&pieces), [(0, 4, 1)]);
        pieces.give_back(&held[0]);
        assert_eq!(listed(&pieces), []);
    }
}
