//! The places of a registry's members, and how they are taken and given back: a word each, and a
//! lock that the kernel keeps.
//!
//! A member that crashes gives nothing back, so something must tell its place from the place of a
//! living member. Its process's number does not: numbers are used again, and mean nothing in
//! another namespace. A lock of a byte of the file does: the kernel gives it back when the process
//! ends, however it ends, and a process that sees the file sees the lock ([`Locks`]). So a place is
//! *held* by the member that has its lock, and its word only says what the holder wants others to
//! know:
//!
//! | bits | what |
//! | --- | --- |
//! | 0 to 19 | demand: how many CPUs it could use now, in hundredths |
//! | 20 to 39 | cap: how many it may use at all, in hundredths |
//! | 40 to 47 | weight; 0: no member is here, and all else but the generation is 0 too |
//! | 48 to 63 | generation: how often a member came, modulo 2¹⁶ |
//!
//! ```text
//!            take the lock, then the word: generation + 1
//!   FREE ──────────────────────────────────────────────────► TAKEN ◄─┐ the holder changes its terms
//!    ▲                                                        │ │ └──┘
//!    │ leave: the holder frees the word, then gives back the lock │
//!    ├────────────────────────────────────────────────────────┘ │
//!    │ sweep: any member, if the lock is free                      │
//!    └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. A word becomes TAKEN only by a thread that has the place's lock, and with a generation that
//!    it did not have before.
//! 2. A member that came keeps the lock until it has left, or is gone; it never takes it again for
//!    the same generation.
//! 3. A TAKEN word becomes FREE by its holder; or by a sweeper that saw the word, then saw that the
//!    lock is free, and frees this very word. By 1 and 2 the member that the sweeper saw is gone
//!    then: a place of the living is never swept.
//! 4. A place is freed once for each time that it was taken: freeing compares the whole word, and
//!    the next taker changes the generation. (A sweeper that stops between its two looks while
//!    65,536 members come and go at one place could free the last of them by mistake; that member
//!    finds out, and joins again.)
//! 5. A holder changes its own word only if it is still its own. So a member whose place was taken
//!    from it (by 4, or because the lock was removed) never brings a freed place back to life.
//!
//! # Memory orderings
//! A word is acquired before the lock is looked at, and it was released after the lock was taken,
//! so a thread that sees a taken word sees its lock, too, if it is still there. The kernel's locks
//! order what is done before and after them.

use platform::atomic::{AtomicU64, Ordering};

const DEMAND_SHIFT: u32 = 0;
const CAP_SHIFT: u32 = 20;
const WEIGHT_SHIFT: u32 = 40;
const GENERATION_SHIFT: u32 = 48;
const CPUS_MASK: u64 = (1 << 20) - 1;

/// How many members a registry has room for.
pub const PLACES: usize = 256;

/// The most CPUs that a member can ask for, in hundredths.
pub const HUNDREDTHS_MAX: u32 = CPUS_MASK as u32;

/// CPUs in hundredths, rounded up; no number, and less than none, are none.
pub fn hundredths(cpus: f64) -> u32 {
    // The conversion takes what is too big for the biggest, and what is no number for 0. Subtract a
    // small epsilon so that 1.1 does not round up.
    ((cpus * 100.0 - 1e-6).ceil() as u32).min(HUNDREDTHS_MAX)
}

/// What a member tells the others, and what a free place does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    weight: u8,
    demand: u32,
    cap: u32,
}

impl Terms {
    /// A weight (at least 1), and CPUs in hundredths (at most [`HUNDREDTHS_MAX`]).
    pub fn new(weight: u8, demand: u32, cap: u32) -> Terms {
        Terms { weight: weight.max(1), demand: demand.min(HUNDREDTHS_MAX), cap: cap.min(HUNDREDTHS_MAX) }
    }

    /// How much it counts, compared with others: 1 to 255.
    pub fn weight(self) -> u8 {
        self.weight
    }

    /// How many CPUs it could use now, in hundredths.
    pub fn demand(self) -> u32 {
        self.demand
    }

    /// How many CPUs it may use at all, in hundredths.
    pub fn cap(self) -> u32 {
        self.cap
    }

    /// The terms in a place's word; `None` if the place is free. Every value of a word is valid.
    pub fn of(word: u64) -> Option<Terms> {
        let weight = (word >> WEIGHT_SHIFT) as u8;
        (weight != 0).then_some(Terms {
            weight,
            demand: (word >> DEMAND_SHIFT & CPUS_MASK) as u32,
            cap: (word >> CAP_SHIFT & CPUS_MASK) as u32,
        })
    }

    fn word(self, generation: u16) -> u64 {
        u64::from(generation) << GENERATION_SHIFT
            | u64::from(self.weight) << WEIGHT_SHIFT
            | u64::from(self.cap) << CAP_SHIFT
            | u64::from(self.demand) << DEMAND_SHIFT
    }
}

fn generation(word: u64) -> u16 {
    (word >> GENERATION_SHIFT) as u16
}

/// The same generation without a member.
fn freed(word: u64) -> u64 {
    u64::from(generation(word)) << GENERATION_SHIFT
}

/// The locks of the places, as one member has them. They end with the process that has them, and
/// only then or when they are given back.
pub trait Locks {
    /// Takes a place's lock, unless another holder has it.
    fn try_lock(&self, place: usize) -> bool;
    /// Gives it back.
    fn unlock(&self, place: usize);
    /// Whether another holder has it; true also if that is not known.
    fn is_locked_by_another(&self, place: usize) -> bool;
}

/// A place that a member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which.
    pub index: usize,
    generation: u16,
}

impl Place {
    fn is_in(self, word: u64) -> bool {
        Terms::of(word).is_some() && generation(word) == self.generation
    }
}

/// Takes the first place that no member holds; `None` if all are held.
pub fn take(words: &[AtomicU64], terms: Terms, locks: &impl Locks) -> Option<Place> {
    // Places that look free first, then places whose members may be gone.
    let free = (0..words.len()).find_map(|index| {
        // Relaxed: only a hint; the lock decides.
        let looks_free = Terms::of(words[index].load(Ordering::Relaxed)).is_none();
        looks_free.then(|| take_this(words, index, terms, locks)).flatten()
    });
    free.or_else(|| (0..words.len()).find_map(|index| take_this(words, index, terms, locks)))
}

fn take_this(words: &[AtomicU64], index: usize, terms: Terms, locks: &impl Locks) -> Option<Place> {
    if !locks.try_lock(index) {
        return None;
    }
    // The lock is ours, so the member that the word speaks of is gone (Invariant 2), and no other
    // takes the place (1). Only a sweeper can change the word now, once: it frees it.
    // Acquire, here and below: pairs with the release of the member that was here; its generation
    // must not be used again.
    let mut seen = words[index].load(Ordering::Acquire);
    loop {
        let place = Place { index, generation: generation(seen).wrapping_add(1) };
        let taken = terms.word(place.generation);
        // Release: a thread that sees the word sees that its lock was taken.
        match words[index].compare_exchange(seen, taken, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(place),
            Err(now) => seen = now,
        }
    }
}

/// Changes what a member tells the others. `false`: the place is not its own any more, and stays as
/// it is.
pub fn change(words: &[AtomicU64], place: Place, terms: Terms) -> bool {
    let word = &words[place.index];
    // Relaxed: of the word we need its generation, and the exchange checks that again.
    let mut seen = word.load(Ordering::Relaxed);
    while place.is_in(seen) {
        // Release, as when the place was taken: a thread that reads this value knows of the lock
        // too. Other threads of the member may do the same, so this is tried again as long as they
        // do.
        match word.compare_exchange(seen, terms.word(place.generation), Ordering::Release, Ordering::Relaxed)
        {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// Whether the place is still the member's own.
pub fn is_own(words: &[AtomicU64], place: Place) -> bool {
    // Relaxed: nothing follows from it but what its holder does with its own.
    place.is_in(words[place.index].load(Ordering::Relaxed))
}

/// Gives a place back.
pub fn leave(words: &[AtomicU64], place: Place, locks: &impl Locks) {
    let word = &words[place.index];
    // Relaxed: as in `change`.
    let mut seen = word.load(Ordering::Relaxed);
    while place.is_in(seen) {
        // Release: the next taker acquires the generation.
        match word.compare_exchange(seen, freed(seen), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    // Only now, or the member would be one without a lock (Invariant 2).
    locks.unlock(place.index);
}

/// Takes back the places of members that are gone; returns how many. `own` is the caller's own
/// place, whose lock it does not see.
pub fn sweep(words: &[AtomicU64], own: Option<Place>, locks: &impl Locks) -> usize {
    (0..words.len()).filter(|&index| sweep_this(words, index, own, locks)).count()
}

fn sweep_this(words: &[AtomicU64], index: usize, own: Option<Place>, locks: &impl Locks) -> bool {
    // Acquire: the lock of the member that wrote this was taken before, and is looked at after.
    let seen = words[index].load(Ordering::Acquire);
    if Terms::of(seen).is_none() || own.is_some_and(|own| own.index == index) {
        return false;
    }
    if locks.is_locked_by_another(index) {
        return false;
    }
    // By Invariant 3. Release: as when its holder leaves. Acquire is not needed: nothing is read
    // behind it.
    words[index].compare_exchange(seen, freed(seen), Ordering::Release, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// The locks of a file: the number of each one's holder.
    type Table = Rc<RefCell<Vec<Option<u32>>>>;

    struct Held(Table, u32);

    impl Locks for Held {
        fn try_lock(&self, place: usize) -> bool {
            let lock = &mut self.0.borrow_mut()[place];
            let mine = lock.is_none_or(|holder| holder == self.1);
            if mine {
                *lock = Some(self.1);
            }
            mine
        }

        fn unlock(&self, place: usize) {
            self.0.borrow_mut()[place] = None;
        }

        fn is_locked_by_another(&self, place: usize) -> bool {
            self.0.borrow()[place].is_some_and(|holder| holder != self.1)
        }
    }

    fn words(count: usize) -> (Vec<AtomicU64>, Table) {
        ((0..count).map(|_| AtomicU64::new(0)).collect(), Rc::new(RefCell::new(vec![None; count])))
    }

    #[test]
    fn cpus_are_counted_in_hundredths_whatever_the_number() {
        for (cpus, counted) in [(1.1, 110), (0.001, 1), (0.0, 0), (2.0, 200), (-3.0, 0), (f64::NAN, 0)] {
            assert_eq!(hundredths(cpus), counted, "{cpus}");
        }
        assert_eq!(hundredths(f64::INFINITY), HUNDREDTHS_MAX);
    }

    #[test]
    fn a_word_returns_the_terms_that_were_packed() {
        let terms = Terms::new(255, 123_456, HUNDREDTHS_MAX);
        assert_eq!(Terms::of(terms.word(65_535)), Some(terms));
        assert_eq!(Terms::of(0), None);
        assert_eq!(Terms::of(freed(terms.word(7))), None);
        assert_eq!(Terms::new(0, u32::MAX, u32::MAX), Terms::new(1, HUNDREDTHS_MAX, HUNDREDTHS_MAX));
    }

    #[test]
    fn places_are_taken_once_and_those_of_the_gone_come_back_once() {
        let (words, table) = words(2);
        let (one, two, three) = (Held(table.clone(), 1), Held(table.clone(), 2), Held(table.clone(), 3));
        let terms = Terms::new(1, 100, 200);
        let first = take(&words, terms, &one).expect("free");
        let second = take(&words, terms, &two).expect("free");
        assert_ne!(first.index, second.index);
        assert_eq!(take(&words, terms, &three), None, "both are held");
        assert_eq!(sweep(&words, None, &three), 0, "both live");
        // The first dies.
        table.borrow_mut()[first.index] = None;
        assert_eq!((sweep(&words, None, &three), sweep(&words, Some(second), &two)), (1, 0));
        assert!(!change(&words, first, terms), "the dead do not come back");
        let third = take(&words, terms, &three).expect("its place");
        assert_eq!((third.index, third.generation), (first.index, first.generation + 1));
        leave(&words, first, &Held(table.clone(), 9));
        assert!(is_own(&words, third), "the member before takes nothing from the present one");
    }

    #[test]
    fn a_place_of_the_dead_is_taken_without_a_sweep() {
        let (words, table) = words(1);
        let terms = Terms::new(1, 100, 200);
        let dead = take(&words, terms, &Held(table.clone(), 1)).expect("free");
        table.borrow_mut()[0] = None;
        let next = take(&words, terms, &Held(table, 2)).expect("no member holds it");
        assert!(is_own(&words, next) && !is_own(&words, dead));
    }

    #[test]
    fn generations_go_round() {
        let (words, table) = words(1);
        words[0].store(freed(Terms::new(1, 0, 0).word(u16::MAX)), Ordering::Relaxed);
        let held = Held(table, 1);
        let place = take(&words, Terms::new(3, 1, 2), &held).expect("free");
        assert_eq!(place.generation, 0);
        leave(&words, place, &held);
        assert_eq!(words[0].load(Ordering::Relaxed), 0);
    }
}
