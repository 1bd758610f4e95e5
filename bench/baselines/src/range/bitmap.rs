//! One bit for each block of the space.
//!
//! How LeanStore keeps the parts of its shared aliasing area apart: an area of virtual memory into
//! which threads map the scattered pages of a large object, so that it looks contiguous (Nguyen and
//! Leis, "Why files if you have a DBMS", ICDE 2024). A range takes the bits of all blocks that it
//! touches, a word of 64 at a time in ascending order, and undoes what it has done when it meets a
//! bit that is taken. A block is the least that can be locked, no range is shared, and no thread
//! waits in line.
//!
//! A request that fails does not hinder others for long: of the requests that collide while they
//! take words, the furthest one has only holders ahead of it. So one of them succeeds unless a
//! holder is in the way.
//!
//! Neighbours in one block exclude each other. So a thread that holds a range and asks for another
//! one in the same block waits for itself; a holder of several at once chooses a width that no two
//! of them share ([`Bitmap::of_width`]).
//!
//! # Deviations
//! - LeanStore looks for *some* free blocks and tries elsewhere after a conflict. Here callers say
//!   which, so `lock` tries again after a while: it spins for a moment, then yields, then sleeps
//!   ([`Adaptive`]).
//! - The last block reaches to the end of the key space, so that ranges without end are exclusive
//!   too.
//! - Widths are powers of two.
//!
//! Invariants:
//! 1. A bit that is set belongs to the thread that set it, which alone clears it.
//! 2. A range is held by the thread that has the bits of all of its blocks, and every key belongs
//!    to exactly one block.
//!
//! # Memory orderings
//! Setting bits acquires, clearing them to unlock releases. Every change is a read-modify-write, so
//! each continues the releases before it: a thread that sets a bit sees what the last holder of
//! this bit wrote, whichever thread changed others of the word since. An undo has written nothing
//! that others should see.

use super::blocks::Blocks;
use manx::range::{Access, RawRangeLock, Span};
use manx::wait::{Adaptive, Policy};
use platform::atomic::{AtomicU64, Ordering};

const BITS: u64 = u64::BITS as u64;

/// A bit for each block; exclusive only. See the module's text.
#[derive(Debug)]
pub struct Bitmap {
    words: Box<[AtomicU64]>,
    blocks: Blocks,
}

/// What a holder of blocks of [`Bitmap`] keeps: the first and the last of them.
#[derive(Debug)]
pub struct BitmapHeld {
    first: u64,
    last: u64,
}

impl BitmapHeld {
    /// The bits of the word that belong to the range.
    #[inline]
    fn mask(&self, word: u64) -> u64 {
        let from = if word == self.first / BITS { self.first % BITS } else { 0 };
        let to = if word == self.last / BITS { self.last % BITS } else { BITS - 1 };
        (u64::MAX >> (BITS - 1 - to)) & (u64::MAX << from)
    }

    #[inline]
    fn words(&self) -> std::ops::RangeInclusive<u64> {
        self.first / BITS..=self.last / BITS
    }
}

impl Bitmap {
    /// A lock for keys below `space`, whose blocks have `width` keys, rounded up to a power of two.
    /// The last one has all keys from there on. One bit for each, in words of 64.
    pub fn of_width(space: u64, width: u64) -> Bitmap {
        Bitmap::of(Blocks::of_width(space, width))
    }

    fn of(blocks: Blocks) -> Bitmap {
        Bitmap { words: (0..=blocks.last() / BITS).map(|_| AtomicU64::new(0)).collect(), blocks }
    }

    #[inline]
    fn wanted(&self, span: &Span<u64>) -> BitmapHeld {
        BitmapHeld { first: self.blocks.block(span.first()), last: self.blocks.block(span.last()) }
    }

    /// Sets these bits of the word, if none of them is set.
    #[inline]
    fn take(&self, word: u64, mask: u64) -> bool {
        let bits = &self.words[word as usize];
        // Relaxed: the exchange decides.
        let mut seen = bits.load(Ordering::Relaxed);
        while seen & mask == 0 {
            match bits.compare_exchange_weak(seen, seen | mask, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Takes all blocks of the range, or none.
    #[inline]
    fn take_all(&self, wanted: &BitmapHeld) -> bool {
        for word in wanted.words() {
            if !self.take(word, wanted.mask(word)) {
                self.undo(wanted, word);
                return false;
            }
        }
        true
    }

    /// Gives back what was taken of the words before this one.
    #[cold]
    fn undo(&self, wanted: &BitmapHeld, before: u64) {
        for word in wanted.first / BITS..before {
            self.words[word as usize].fetch_and(!wanted.mask(word), Ordering::Relaxed);
        }
    }

    #[cold]
    fn lock_contended(&self, wanted: &BitmapHeld) {
        Adaptive::DEFAULT.until(|| self.take_all(wanted));
    }
}

// SAFETY: by the invariants and the orderings in the module's text.
unsafe impl RawRangeLock for Bitmap {
    type Held = BitmapHeld;
    const NAME: &'static str = "bitmap";
    const SHARES: bool = false;

    fn with_space(space: u64) -> Bitmap {
        Bitmap::of(Blocks::of_space(space))
    }

    fn try_lock(&self, span: &Span<u64>, _access: Access) -> Option<BitmapHeld> {
        let wanted = self.wanted(span);
        self.take_all(&wanted).then_some(wanted)
    }

    fn lock(&self, span: &Span<u64>, _access: Access) -> BitmapHeld {
        let wanted = self.wanted(span);
        if !self.take_all(&wanted) {
            self.lock_contended(&wanted);
        }
        wanted
    }

    unsafe fn unlock(&self, held: BitmapHeld) {
        for word in held.words() {
            self.words[word as usize].fetch_and(!held.mask(word), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_cover_a_range_and_nothing_else() {
        let bits = |first: u64, last: u64| {
            let held = BitmapHeld { first, last };
            held.words().map(|word| held.mask(word).count_ones()).collect::<Vec<_>>()
        };
        assert_eq!(bits(0, 0), [1]);
        assert_eq!(bits(0, 63), [64]);
        assert_eq!(bits(63, 64), [1, 1]);
        assert_eq!(bits(5, 200), [59, 64, 64, 9]);
        assert_eq!(BitmapHeld { first: 65, last: 67 }.mask(1), 0b1110);
    }

    #[test]
    fn a_conflict_in_a_later_word_undoes_the_earlier_ones() {
        let lock = Bitmap::of_width(256, 1);
        let held = lock.lock(&Span::point(200), Access::Exclusive);
        assert!(lock.try_lock(&Span::new(0, 256).expect("a range"), Access::Exclusive).is_none());
        assert!(lock.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones()).eq([0, 0, 0, 1]));
        let before = lock.try_lock(&Span::to(200), Access::Exclusive).expect("nothing was left behind");
        // SAFETY: locked above.
        unsafe {
            lock.unlock(held);
            lock.unlock(before);
        }
        assert!(lock.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn the_whole_space_is_every_bit_that_there_is() {
        let lock = Bitmap::with_space(100);
        let all = lock.lock(&Span::all(), Access::Exclusive);
        assert_eq!((all.first, all.last), (0, 99));
        assert!(lock.try_lock(&Span::point(u64::MAX), Access::Exclusive).is_none());
        // SAFETY: locked above.
        unsafe { lock.unlock(all) };
        assert_eq!(Bitmap::with_space(u64::MAX).words.len(), 64);
    }
}
