//! Reader-writer words, one for each segment of the space.
//!
//! The second range lock of Kim, Kim, Kang, Lee, Park and Kim ("pNOVA: optimizing shared file I/O
//! operations of NVM file system on manycore servers", APSys 2019), which let many threads write
//! one file. The space is cut into segments of equal width, each with a word of 32 bits. A range
//! takes all the segments that it touches, in ascending order, so no threads wait in a circle for
//! words; it gives them back in any order. There is no structure to search and nothing to allocate.
//! What that costs: wide ranges take many words, and neighbours in one segment exclude each other
//! although their ranges do not.
//!
//! | word | meaning |
//! | --- | --- |
//! | 0 | free |
//! | [`WRITER`] | one holds it alone |
//! | n, without that bit | n share it |
//!
//! Because of the neighbours, a thread that holds a range and asks for another in the same segment
//! waits for itself. A holder of several at once chooses a width that no two of them share
//! ([`Segments::of_width`]).
//!
//! # Deviations
//! - The authors spin. Here a wait spins for a moment, then yields, then sleeps ([`Adaptive`]).
//! - The last segment reaches to the end of the key space, so that ranges without end are exclusive
//!   too.
//! - Widths are powers of two.
//! - `try_lock`, which gives back what it has if a word is not to be had.
//!
//! Invariants:
//! 1. The thread that changed a word from 0 to [`WRITER`] holds the segment alone until it stores
//!    0. A thread that added 1 to a word without [`WRITER`] shares it until it takes that away.
//! 2. A range is held by the thread that has each of its segments, and every key belongs to exactly
//!    one segment.
//!
//! # Memory orderings
//! Taking a word acquires, giving it back releases. In between only additions and subtractions of
//! sharers change it; they continue the release before them, so a thread that takes a word sees
//! what every earlier holder of it wrote.

use super::blocks::Blocks;
use manx::range::{Access, RawRangeLock, Span};
use manx::wait::{Adaptive, Policy};
use platform::atomic::{AtomicU32, Ordering};

/// The bit of a word that says that its holder is alone.
const WRITER: u32 = 1 << 31;

/// A reader-writer word for each segment. See the module's text.
#[derive(Debug)]
pub struct Segments {
    words: Box<[AtomicU32]>,
    blocks: Blocks,
}

/// What a holder of segments of [`Segments`] keeps.
#[derive(Debug)]
pub struct SegmentsHeld {
    first: u32,
    last: u32,
    access: Access,
}

impl Segments {
    /// A lock for keys below `space`, whose segments have `width` keys, rounded up to a power of
    /// two. The last one has all keys from there on. One word of 32 bits for each.
    ///
    /// # Panics
    /// There would be more segments than a `u32` counts.
    pub fn of_width(space: u64, width: u64) -> Segments {
        Segments::of(Blocks::of_width(space, width))
    }

    fn of(blocks: Blocks) -> Segments {
        let last = blocks.last();
        assert!(
            last <= u64::from(u32::MAX),
            "segments up to number {last} are more than 32 bits count: choose a greater width"
        );
        Segments { words: (0..=last).map(|_| AtomicU32::new(0)).collect(), blocks }
    }

    /// The segment that a key belongs to.
    #[inline]
    fn segment(&self, key: u64) -> u32 {
        // No number is higher: see `of`.
        self.blocks.block(key) as u32
    }

    #[inline]
    fn wanted(&self, span: &Span<u64>, access: Access) -> SegmentsHeld {
        SegmentsHeld { first: self.segment(span.first()), last: self.segment(span.last()), access }
    }

    #[inline]
    fn words(&self, held: &SegmentsHeld) -> &[AtomicU32] {
        &self.words[held.first as usize..=held.last as usize]
    }

    #[cold]
    fn take_contended(word: &AtomicU32, access: Access) {
        Adaptive::DEFAULT.until(|| take(word, access));
    }
}

/// Takes a segment, if its holders allow.
#[inline]
fn take(word: &AtomicU32, access: Access) -> bool {
    // Relaxed: the exchanges decide.
    let mut seen = word.load(Ordering::Relaxed);
    loop {
        let wanted = match access {
            Access::Exclusive if seen == 0 => WRITER,
            // The bit below the writer's is never reached: that many threads do not exist.
            Access::Shared if seen & WRITER == 0 => seen + 1,
            _ => return false,
        };
        match word.compare_exchange_weak(seen, wanted, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
}

#[inline]
fn give_back(words: &[AtomicU32], access: Access) {
    for word in words {
        match access {
            // By Invariant 1 no other thread changes it.
            Access::Exclusive => word.store(0, Ordering::Release),
            Access::Shared => {
                word.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

// SAFETY: by the invariants and the orderings in the module's text.
unsafe impl RawRangeLock for Segments {
    type Held = SegmentsHeld;
    const NAME: &'static str = "segments";
    const SHARES: bool = true;

    fn with_space(space: u64) -> Segments {
        Segments::of(Blocks::of_space(space))
    }

    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<SegmentsHeld> {
        let wanted = self.wanted(span, access);
        let words = self.words(&wanted);
        match words.iter().position(|word| !take(word, access)) {
            None => Some(wanted),
            Some(taken) => {
                give_back(&words[..taken], access);
                None
            }
        }
    }

    fn lock(&self, span: &Span<u64>, access: Access) -> SegmentsHeld {
        let wanted = self.wanted(span, access);
        for word in self.words(&wanted) {
            if !take(word, access) {
                Segments::take_contended(word, access);
            }
        }
        wanted
    }

    unsafe fn unlock(&self, held: SegmentsHeld) {
        give_back(self.words(&held), held.access);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_segment_has_all_keys_from_there_on() {
        let lock = Segments::of_width(256, 64);
        let held = lock.lock(&Span::point(u64::MAX), Access::Exclusive);
        assert!(lock.try_lock(&Span::from(1000), Access::Shared).is_none());
        assert!(lock.try_lock(&Span::point(10), Access::Shared).is_some());
        // SAFETY: locked above.
        unsafe { lock.unlock(held) };
    }

    #[test]
    fn neighbours_in_one_segment_share_or_exclude_each_other() {
        let lock = Segments::of_width(256, 64);
        let one = lock.lock(&Span::point(1), Access::Shared);
        assert!(lock.try_lock(&Span::point(2), Access::Exclusive).is_none());
        let two = lock.try_lock(&Span::point(2), Access::Shared).expect("shared with the neighbour");
        // SAFETY: locked above.
        unsafe {
            lock.unlock(one);
            lock.unlock(two);
        }
        assert!(lock.try_lock(&Span::point(2), Access::Exclusive).is_some());
    }

    #[test]
    #[should_panic(expected = "choose a greater width")]
    fn too_many_segments_are_refused() {
        Segments::of_width(u64::MAX, 1);
    }
}
