//! A place where the program waits busily, and what is known about it.
//!
//! Invariants:
//! 1. A site's memory is never given back, only used again for another place: a thread may still
//!    hold its address, in its thread block or in a copy of the loop.
//! 2. All fields are atomic: any thread reads and counts at any time; `pivot`, `kind` and `record`
//!    are changed only by the holder of the guard's latch.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use preload_abi::live::{self, How};
use spinloop::Kind;

/// See the module's text.
#[derive(Default)]
pub struct Site {
    /// The address in memory where the waiter looks.
    pub pivot: AtomicUsize,
    /// How its waits end. Null: without a bound.
    kind: AtomicPtr<Kind>,
    /// Rounds before the first yield, as learnt here; 0: the option's number.
    pub spins: AtomicU32,
    /// The word from which the copy takes how many rounds of a wait it spins without a visit, or
    /// null.
    pub rounds: AtomicPtr<AtomicU64>,
    /// Where its statistics are kept, or null.
    pub record: AtomicPtr<live::Site>,
}

impl Site {
    /// How its waits end.
    #[inline(always)]
    pub fn kind(&self) -> &'static Kind {
        // SAFETY: either null or a kind that is never freed (see `set_kind`).
        unsafe { self.kind.load(Ordering::Acquire).as_ref() }.unwrap_or(&Kind::Unbounded)
    }

    /// Notes how its waits end.
    pub fn set_kind(&self, kind: &'static Kind) {
        self.kind.store(core::ptr::from_ref(kind).cast_mut(), Ordering::Release);
    }

    /// How many rounds of a wait the copy spins before its first visit.
    #[inline]
    pub fn unseen_rounds(&self) -> u64 {
        // SAFETY: either null or a word in a page that stays mapped.
        unsafe { self.rounds.load(Ordering::Acquire).as_ref() }.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Lets the copy spin this number of rounds before its first visit, if it can.
    #[inline]
    pub fn set_unseen_rounds(&self, rounds: u64) {
        // SAFETY: either null or a word in a page that stays mapped.
        if let Some(word) = unsafe { self.rounds.load(Ordering::Acquire).as_ref() }
            && word.load(Ordering::Relaxed) != rounds
        {
            word.store(rounds, Ordering::Relaxed);
        }
    }

    /// Notes in its statistics how the site is waited at.
    pub fn set_how(&self, how: How) {
        if let Some(record) = self.record() {
            record.how.store(how as u32, Ordering::Relaxed);
        }
    }

    /// Its statistics, if any are kept.
    #[inline]
    pub fn record(&self) -> Option<&live::Site> {
        // SAFETY: either null or a record in the live file, which stays mapped as long as the
        // process.
        unsafe { self.record.load(Ordering::Acquire).as_ref() }
    }
}
