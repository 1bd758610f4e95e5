//! What each session shows the others: the id of its transaction, and what it needs.
//!
//! A session has a slot as long as it lives. Slots are given from the lowest up, so few sessions
//! sit close together however many there were. One bit for each slot (`active`) says whether its
//! session has a transaction that writes. So a thread that collects the active ids looks at one
//! word for 64 sessions, and at the slots of the active ones.
//!
//! | a slot's `id` | |
//! | --- | --- |
//! | 0 | none |
//! | before · 4 + 1 | one is being taken (*allocating*); the one before was this, or 0 |
//! | id · 4 + 2 | active |
//! | id · 4 + 3 | ended, not yet published |
//!
//! Invariants:
//! 1. A slot is written by the session that has it, but for the step from *allocating* to *active*,
//!    which any thread may take, once.
//! 2. A session's `active` bit is set before it is *allocating*, and cleared after the end is
//!    published.
//! 3. No word is on a slot twice: an id is not, and *allocating* bears the id before. So a thread
//!    that finds the word that it saw earlier knows that nothing has happened there since.

use platform::atomic::{AtomicU64, Ordering};

/// What a slot's `id` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    Nothing,
    Allocating,
    Active(u64),
    Ended,
}

pub(super) const NOTHING: u64 = 0;

/// What is put on a slot on which this was.
pub(super) const fn allocating(before: u64) -> u64 {
    before & !3 | 1
}

pub(super) const fn active(id: u64) -> u64 {
    id << 2 | 2
}

pub(super) const fn ended(id: u64) -> u64 {
    id << 2 | 3
}

pub(super) const fn holds(word: u64) -> SlotState {
    match word & 3 {
        1 => SlotState::Allocating,
        2 => SlotState::Active(word >> 2),
        3 => SlotState::Ended,
        _ => SlotState::Nothing,
    }
}

/// A session's own place, in a line of the cache of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct SessionSlot {
    /// See the table above.
    pub(super) id: AtomicU64,
    /// What the session needs: see `pin.rs`.
    pub(super) pin: AtomicU64,
    /// What that snapshot's `current` is, or a later one's: it never falls.
    pub(super) end: AtomicU64,
}

/// All slots.
#[derive(Debug)]
pub(super) struct SessionSlots {
    slots: Box<[SessionSlot]>,
    taken: Box<[AtomicU64]>,
    active: Box<[AtomicU64]>,
    /// The number of words of the two that have ever been in use.
    words: AtomicU64,
}

const BITS: usize = 64;

impl SessionSlots {
    /// Makes room for `sessions_max` sessions.
    pub(super) fn new(sessions_max: u32) -> SessionSlots {
        let sessions_max = sessions_max.max(1) as usize;
        let words = || (0..sessions_max.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect();
        let slot =
            |_| SessionSlot { id: AtomicU64::new(NOTHING), pin: AtomicU64::new(0), end: AtomicU64::new(0) };
        let slots = (0..sessions_max).map(slot).collect();
        SessionSlots { slots, taken: words(), active: words(), words: AtomicU64::new(0) }
    }

    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(super) fn at(&self, slot: usize) -> &SessionSlot {
        &self.slots[slot]
    }

    /// Takes the lowest free slot.
    pub(super) fn take(&self) -> Option<usize> {
        for (at, word) in self.taken.iter().enumerate() {
            // Relaxed: a thread that succeeds below acquires.
            let mut taken = word.load(Ordering::Relaxed);
            loop {
                let bit = taken.trailing_ones() as usize;
                let slot = at * BITS + bit;
                if bit == BITS || slot >= self.slots.len() {
                    break;
                }
                // AcqRel: the slot is as its last session left it; pairs with `leave`.
                match word.compare_exchange(taken, taken | 1 << bit, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => {
                        // Before the slot is used; a thread that looks at fewer words looked
                        // before.
                        self.words.fetch_max(at as u64 + 1, Ordering::SeqCst);
                        return Some(slot);
                    }
                    Err(now) => taken = now,
                }
            }
        }
        None
    }

    /// Gives a slot back, on which nothing is.
    pub(super) fn leave(&self, slot: usize) {
        // Release: pairs with `take`.
        self.taken[slot / BITS].fetch_and(!(1 << (slot % BITS)), Ordering::Release);
    }

    /// The session of this slot is about to write, or does so no more.
    pub(super) fn set_active(&self, slot: usize, is_active: bool) {
        let (word, bit) = (&self.active[slot / BITS], 1 << (slot % BITS));
        if is_active {
            // AcqRel, as part of what `allocation.rs` publishes with the id.
            word.fetch_or(bit, Ordering::AcqRel);
        } else {
            word.fetch_and(!bit, Ordering::Release);
        }
    }

    /// Calls `each` with every slot whose session has a transaction that writes.
    #[inline]
    pub(super) fn each_active(&self, each: impl FnMut(&SessionSlot)) {
        self.each_in(&self.active, each);
    }

    /// Calls `each` with every slot that a session has.
    pub(super) fn each_taken(&self, each: impl FnMut(&SessionSlot)) {
        self.each_in(&self.taken, each);
    }

    fn each_in(&self, words: &[AtomicU64], mut each: impl FnMut(&SessionSlot)) {
        let used = self.words.load(Ordering::SeqCst) as usize;
        for (at, word) in words[..used].iter().enumerate() {
            // Acquire: pairs with `set_active` and `take`.
            let mut bits = word.load(Ordering::Acquire);
            while bits != 0 {
                each(&self.slots[at * BITS + bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_from_the_lowest_up() {
        let slots = SessionSlots::new(70);
        let taken: Vec<usize> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(taken, (0..70).collect::<Vec<_>>());
        slots.leave(66);
        slots.leave(3);
        assert_eq!((slots.take(), slots.take(), slots.take()), (Some(3), Some(66), None));
        let mut active = 0;
        slots.set_active(69, true);
        slots.each_active(|slot| {
            assert!(std::ptr::eq(slot, slots.at(69)));
            active += 1;
        });
        slots.set_active(69, false);
        slots.each_active(|_| active += 1);
        assert_eq!(active, 1);
    }

    #[test]
    fn words_of_a_slot_are_distinct() {
        assert_eq!(holds(active(7)), SlotState::Active(7));
        assert_eq!(holds(ended(7)), SlotState::Ended);
        assert_eq!(holds(NOTHING), SlotState::Nothing);
        let words = [NOTHING, ended(7), ended(8)].map(allocating);
        assert_eq!(words.map(holds), [SlotState::Allocating; 3]);
        assert!(words[0] != words[1] && words[1] != words[2], "Invariant 3");
    }
}
