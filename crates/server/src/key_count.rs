//! The number of keys of the present generation (`names.rs`), and of those that have an expiry:
//! what DBSIZE and INFO answer at once.
//!
//! Each transaction counts what it adds and deletes, and adds that here once it is committed. Keys
//! count until they are deleted, expired or not, as in Redis.
//!
//! Invariants:
//! 1. A number and the generation that it is of are one word, so what a transaction of another
//!    generation has done does not count.
//! 2. The generation only grows. (Of a number of 24 bits: a transaction that lasts for millions of
//!    FLUSHALLs may be counted to a wrong one.)

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Numbers that were added or deleted; of one transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) keys: i64,
    pub(crate) expiries: i64,
}

/// What a transaction has done to the keys as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Which keys it saw last.
    pub(crate) generation: u64,
    /// It has begun that generation: it has flushed all.
    pub(crate) is_new: bool,
    pub(crate) added: Change,
    /// What its writes have added to the memory, in bytes.
    pub(crate) bytes: i64,
}

/// See [the module](self).
#[derive(Debug)]
pub(crate) struct KeyCount {
    keys: Tagged,
    expiries: Tagged,
    /// What was there at the start was counted.
    is_known: AtomicBool,
}

impl KeyCount {
    /// Of no keys, or of those that will be added by [`KeyCount::know`].
    pub(crate) fn new(generation: u64, is_known: bool) -> KeyCount {
        let of = || Tagged(AtomicU64::new(tag(generation)));
        KeyCount { keys: of(), expiries: of(), is_known: AtomicBool::new(is_known) }
    }

    /// A transaction with this outcome is committed.
    #[inline]
    pub(crate) fn committed(&self, outcome: Outcome) {
        let Outcome { generation, is_new, added, .. } = outcome;
        for (number, added) in [(&self.keys, added.keys), (&self.expiries, added.expiries)] {
            if is_new {
                number.begin(generation, added);
            } else if added != 0 {
                number.add(generation, added);
            }
        }
    }

    /// At the start the generation had this.
    pub(crate) fn know(&self, generation: u64, added: Change) {
        self.committed(Outcome { generation, is_new: false, added, bytes: 0 });
        // Release: a thread that sees it sees the numbers.
        self.is_known.store(true, Ordering::Release);
    }

    /// How many there are, if that is known already: keys, and those with an expiry.
    pub(crate) fn get(&self) -> Option<(u64, u64)> {
        self.is_known.load(Ordering::Acquire).then(|| (self.keys.get(), self.expiries.get()))
    }
}

/// A number, and in its highest bits the generation (Invariant 1).
#[derive(Debug)]
struct Tagged(AtomicU64);

const NUMBER_BITS: u32 = 40;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

fn tag(generation: u64) -> u64 {
    generation << NUMBER_BITS
}

// Relaxed, all of it: a number for people.
impl Tagged {
    #[inline]
    fn add(&self, generation: u64, change: i64) {
        let add = |word: u64| (word & !NUMBER) | (word.wrapping_add_signed(change) & NUMBER);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (word & !NUMBER == tag(generation)).then(|| add(word))
        });
    }

    fn begin(&self, generation: u64, number: i64) {
        let first = tag(generation) | (number as u64 & NUMBER);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            // Invariant 2.
            (tag(generation).wrapping_sub(word & !NUMBER).cast_signed() > 0).then_some(first)
        });
    }

    fn get(&self) -> u64 {
        let number = self.0.load(Ordering::Relaxed) << (u64::BITS - NUMBER_BITS);
        // A key may be deleted before the thread that has made it counts it.
        u64::try_from(number.cast_signed() >> (u64::BITS - NUMBER_BITS)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(count: &KeyCount, generation: u64, keys: i64, expiries: i64) {
        count.committed(Outcome { generation, is_new: false, added: Change { keys, expiries }, bytes: 0 });
    }

    fn begin(count: &KeyCount, generation: u64, keys: i64, expiries: i64) {
        count.committed(Outcome { generation, is_new: true, added: Change { keys, expiries }, bytes: 0 });
    }

    #[test]
    fn what_is_of_another_generation_does_not_count() {
        let count = KeyCount::new(7, true);
        add(&count, 7, 5, 2);
        add(&count, 7, -1, 0);
        add(&count, 6, 100, 100);
        assert_eq!(count.get(), Some((4, 2)));
        begin(&count, 9, 1, 1);
        // These were slow.
        begin(&count, 8, 50, 50);
        add(&count, 7, -4, -2);
        assert_eq!(count.get(), Some((1, 1)));
    }

    #[test]
    fn a_key_may_be_deleted_before_it_is_counted() {
        for generation in [0, 1, (1 << 24) - 1, 1 << 24] {
            let count = KeyCount::new(generation, true);
            add(&count, generation, -1, -1);
            assert_eq!(count.get(), Some((0, 0)));
            add(&count, generation, 3, 1);
            assert_eq!(count.get(), Some((2, 0)), "{generation}");
            begin(&count, generation + 1, 0, 0);
            assert_eq!(count.get(), Some((0, 0)));
        }
    }

    #[test]
    fn what_was_there_at_the_start_is_counted_later() {
        let count = KeyCount::new(0, false);
        add(&count, 0, -2, -1);
        assert_eq!(count.get(), None);
        count.know(0, Change { keys: 10, expiries: 5 });
        assert_eq!(count.get(), Some((8, 4)));
    }
}
