//! When, or how often, keys were used: what eviction goes by.
//!
//! A read writes nothing into the store, so this stands beside it: a table of words, found by the
//! key's hash. Two keys that share a word both count as much as the one that is used more. There
//! are about as many words as keys that fit into the memory that the server may use, so few keys
//! share one.
//!
//! How often: a counter that grows ever more rarely (by a chance of one in ten times its value) and
//! falls by one in each minute without use, as Redis has it.

use crate::options::Eviction;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The memory of a key and a value that are small: a word for each.
const KEY_BYTES: u64 = 256;
/// A new key is not the next to go: it gets this count.
const NEW: u32 = 5;
/// A count of `n` more than that grows once in `n` times this number of uses.
const GROWTH: u32 = 10;
const COUNT_MAX: u32 = 255;
const COUNT_BITS: u32 = 8;
const MINUTE_MS: u64 = 60_000;

/// See [the module](self).
pub(crate) struct Access {
    by: By,
    hasher: RandomState,
    words: Box<[AtomicU32]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The time of the last use, in milliseconds. The number begins anew every 49 days.
    Age,
    /// A count, and behind it the minute in which it was last right.
    Count,
}

impl Access {
    /// For a server that may use this much memory; none if eviction does not go by use.
    pub(crate) fn new(eviction: Eviction, bytes_max: u64) -> Option<Access> {
        let by = match eviction {
            Eviction::AllKeysLru | Eviction::VolatileLru => By::Age,
            Eviction::AllKeysLfu | Eviction::VolatileLfu => By::Count,
            _ => return None,
        };
        let words = usize::try_from(bytes_max / KEY_BYTES).unwrap_or(usize::MAX).clamp(1 << 10, 1 << 30);
        let words = std::iter::repeat_with(|| AtomicU32::new(0)).take(words.next_power_of_two()).collect();
        Some(Access { by, hasher: RandomState::new(), words })
    }

    fn word(&self, key: &[u8]) -> &AtomicU32 {
        &self.words[self.hasher.hash_one(key) as usize & (self.words.len() - 1)]
    }

    // Relaxed, all of it: what two threads write at once is as good from one as from the other.
    /// The key is used.
    #[inline]
    pub(crate) fn touch(&self, key: &[u8], now_ms: u64) {
        let word = self.word(key);
        match self.by {
            // Only what was never used has 0.
            By::Age => word.store((now_ms as u32).max(1), Relaxed),
            By::Count => {
                let count = count(word.load(Relaxed), now_ms);
                let grows = count < COUNT_MAX && {
                    let chances = count.saturating_sub(NEW) * GROWTH + 1;
                    fastrand::u32(..chances) == 0
                };
                word.store(counted(count + u32::from(grows), now_ms), Relaxed);
            }
        }
    }

    /// A key is made.
    pub(crate) fn begin(&self, key: &[u8], now_ms: u64) {
        match self.by {
            By::Age => self.touch(key, now_ms),
            By::Count => {
                // Another key that shares the word keeps its count.
                let word = self.word(key);
                word.store(counted(count(word.load(Relaxed), now_ms).max(NEW), now_ms), Relaxed);
            }
        }
    }

    /// For how many milliseconds a key was not used, if that is what counts.
    pub(crate) fn idle_ms(&self, key: &[u8], now_ms: u64) -> Option<u64> {
        (self.by == By::Age).then(|| self.score(key, now_ms))
    }

    /// How often it is used, if that is what counts.
    pub(crate) fn frequency(&self, key: &[u8], now_ms: u64) -> Option<u32> {
        (self.by == By::Count).then(|| count(self.word(key).load(Relaxed), now_ms))
    }

    /// How much rather this key is to go than others: the larger, the rather.
    pub(crate) fn score(&self, key: &[u8], now_ms: u64) -> u64 {
        let word = self.word(key).load(Relaxed);
        match self.by {
            By::Age if word == 0 => u64::MAX,
            By::Age => u64::from((now_ms as u32).wrapping_sub(word)),
            By::Count => u64::from(COUNT_MAX - count(word, now_ms)),
        }
    }
}

/// The word of this count, which is right now.
fn counted(count: u32, now_ms: u64) -> u32 {
    ((now_ms / MINUTE_MS) as u32) << COUNT_BITS | count
}

/// The count that a word has by now.
fn count(word: u32, now_ms: u64) -> u32 {
    let minutes = ((counted(0, now_ms)).wrapping_sub(word & !COUNT_MAX)) >> COUNT_BITS;
    (word & COUNT_MAX).saturating_sub(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let access = Access::new(Eviction::AllKeysLru, 1 << 20).unwrap();
        let now_ms = u64::from(u32::MAX) - 5;
        access.begin(b"old", now_ms);
        access.begin(b"used", now_ms + 1);
        // Across the end of the numbers.
        access.touch(b"used", now_ms + 100);
        let score = |key: &[u8]| access.score(key, now_ms + 200);
        assert_eq!((score(b"old"), score(b"used")), (200, 100));
        assert_eq!(score(b"never"), u64::MAX);
    }

    #[test]
    fn what_is_used_rarely_goes_first_and_use_is_forgotten() {
        let access = Access::new(Eviction::VolatileLfu, 1 << 20).unwrap();
        let now_ms = 1_000 * MINUTE_MS;
        for (key, times) in [(&b"often"[..], 10_000), (b"rarely", 20), (b"new", 0)] {
            access.begin(key, now_ms);
            (0..times).for_each(|_| access.touch(key, now_ms));
        }
        let scores = |now_ms| [&b"often"[..], b"rarely", b"new"].map(|key| access.score(key, now_ms));
        let [often, rarely, new] = scores(now_ms);
        assert!(often < rarely && rarely < new && new == u64::from(COUNT_MAX - NEW));
        // As Redis' own table has it: some 10,000 uses make about 40.
        assert!((150..245).contains(&often), "{often}");
        let later = scores(now_ms + 10 * MINUTE_MS);
        assert_eq!((later[0], later[2]), (often + 10, u64::from(COUNT_MAX)));
    }

    #[test]
    fn what_does_not_go_by_use_has_no_table() {
        for eviction in [Eviction::None, Eviction::AllKeysRandom, Eviction::VolatileTtl] {
            assert!(Access::new(eviction, 1 << 20).is_none());
        }
    }
}
