//! The memory that the threads of a run share, and the owner of each part.
//!
//! In a run that measures, the holder of a range writes or reads it by plain stores and loads. In a
//! run that checks, words are counters: the low half counts writers, the high half counts readers.
//! If a thread enters or leaves a range and a word has a holder that its access excludes, that is a
//! violation. Both steps are atomic additions. So the counters stay correct if a lock is wrong, and
//! a mistake is counted for the holders that met, not for later ones.
//!
//! Invariants:
//! 1. A range is written only while it is held exclusively, and read only while it is held.
//! 2. In one run words are either counters or bytes.

use super::request::{Request, WORD};
use manx::range::Access;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reader in a word.
const READER: u64 = 1 << 32;
/// A writer in a word.
const WRITER: u64 = 1;
/// The writers of a word.
const WRITERS: u64 = READER - 1;

/// A holder's part of a word, and the bits of the holders that it excludes.
fn step(access: Access) -> (u64, u64) {
    match access {
        Access::Exclusive => (WRITER, u64::MAX),
        Access::Shared => (READER, WRITERS),
    }
}

/// Memory that ranges lie in.
pub(super) struct Region {
    words: Vec<AtomicU64>,
}

impl Region {
    /// Makes a region of `bytes` bytes, all zero and touched, so that no page is missing later.
    pub(super) fn new(bytes: usize) -> Region {
        Region { words: (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// How many bytes there are.
    pub(super) fn bytes(&self) -> usize {
        self.words.len() * WORD
    }

    fn words(&self, request: Request) -> &[AtomicU64] {
        &self.words[request.start as usize / WORD..request.end as usize / WORD]
    }

    /// Writes the whole range, or reads it into `copy`, `times` times.
    ///
    /// # Safety
    /// The caller holds the range with this access (Invariant 1), and no thread counts in this
    /// region (Invariant 2).
    #[inline(always)]
    pub(super) unsafe fn touch(&self, request: Request, times: u32, value: u8, copy: &mut [u64]) {
        let words = self.words(request);
        let place = words.as_ptr().cast::<u64>().cast_mut();
        for _ in 0..times {
            let place = black_box(place);
            match request.access {
                // SAFETY: the words lie in one slice of atomics, which may be written through a
                // shared reference, and by the caller's promise no other thread accesses them now.
                Access::Exclusive => unsafe { place.write_bytes(value, words.len()) },
                Access::Shared => {
                    let copy = &mut copy[..words.len()];
                    // SAFETY: as above, but others may read them, too; the copy is somewhere else.
                    unsafe { place.copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
                    black_box(copy);
                }
            }
        }
    }

    /// Enters a range that the caller has locked; false if it has a holder that the caller
    /// excludes.
    pub(super) fn enter(&self, request: Request) -> bool {
        let (step, others) = step(request.access);
        // Relaxed: a correct lock orders one holder's additions before the next holder's, and this
        // checks the lock.
        let meets = |word: &&AtomicU64| word.fetch_add(step, Ordering::Relaxed) & others != 0;
        self.words(request).iter().filter(meets).count() == 0
    }

    /// Leaves it again; false if a holder that the caller excludes has entered meanwhile.
    pub(super) fn leave(&self, request: Request) -> bool {
        let (step, others) = step(request.access);
        // Relaxed: see `enter`.
        let met = |word: &&AtomicU64| (word.fetch_sub(step, Ordering::Relaxed) - step) & others != 0;
        self.words(request).iter().filter(met).count() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(start: u32, end: u32, access: Access) -> Request {
        Request { start, end, access }
    }

    #[test]
    fn two_holders_that_exclude_each_other_are_found_in_either_order() {
        use Access::{Exclusive, Shared};
        for (first, second, fine) in [
            (Exclusive, Exclusive, false),
            (Exclusive, Shared, false),
            (Shared, Exclusive, false),
            (Shared, Shared, true),
        ] {
            let region = Region::new(64);
            let (one, two) = (request(0, 32, first), request(24, 64, second));
            assert!(region.enter(one));
            assert_eq!(region.enter(two), fine, "{second:?} enters beside {first:?}");
            assert_eq!(region.leave(one), fine, "{first:?} leaves {second:?}");
            assert!(region.leave(two), "a holder that stays alone is not blamed");
            assert!(region.enter(one) && region.leave(one), "nothing is left behind");
        }
    }

    #[test]
    fn neighbours_do_not_meet() {
        let region = Region::new(64);
        let (one, two) = (request(0, 32, Access::Exclusive), request(32, 64, Access::Exclusive));
        assert!(region.enter(one) && region.enter(two) && region.leave(one) && region.leave(two));
    }

    #[test]
    fn a_write_fills_the_range_and_nothing_else() {
        let region = Region::new(64);
        let mut copy = [0; 8];
        // SAFETY: only this test has the region.
        unsafe { region.touch(request(8, 24, Access::Exclusive), 2, 0xff, &mut []) };
        let all = request(0, 64, Access::Shared);
        // SAFETY: as above.
        unsafe { region.touch(all, 1, 0, &mut copy) };
        assert_eq!(copy, [0, u64::MAX, u64::MAX, 0, 0, 0, 0, 0]);
    }
}
