//! Places for pinned threads, and what is kept in each.
//!
//! A slot is claimed by the compare-and-swap that writes the epoch, so what it keeps needs no lock
//! (see [`super::epoch`], whose invariants these are). Slots are apart from each other by two cache
//! lines, which are fetched in pairs: threads that have a slot each share none.

use super::chain::{Chain, Retire};
use platform::atomic::{AtomicPtr, AtomicU64, Ordering};
use platform::cell::UnsafeCell;
use std::ptr;

/// The state of a slot that no thread has.
pub(super) const FREE: u64 = 0;

platform::os_only! {
    /// Slots in one piece of memory; a further piece is made when more threads are pinned at once.
    pub(super) const SLOTS: usize = 16;

    const _: () = assert!(size_of::<Slot<u64>>() == 128, "a slot is two cache lines, which are fetched in pairs");
}

platform::twins_only! {
    pub(super) const SLOTS: usize = 2;
}

/// What a slot keeps. See Invariant 1.
pub(super) struct Kept<N> {
    /// Given back, but maybe linked still, the oldest first.
    pub(super) left: Chain<N>,
    /// Retired in the epoch that is not over, as far as this slot is concerned.
    pub(super) retired: Chain<N>,
    /// Retired before, and tagged.
    pub(super) limbo: Chain<N>,
    /// Ready to be lent.
    pub(super) ready: Chain<N>,
    /// The number of nodes in limbo at which the slot looks through it.
    pub(super) due: u32,
    /// A state of the generator of random numbers.
    pub(super) dice: u64,
}

/// The place of a thread that is pinned.
#[repr(align(128))]
pub(super) struct Slot<N> {
    pub(super) state: AtomicU64,
    /// The last epoch of the pin, if it is above the first one.
    pub(super) latest: AtomicU64,
    pub(super) kept: UnsafeCell<Kept<N>>,
}

/// A piece of memory with slots, and the next one.
pub(super) struct Slots<N> {
    pub(super) slots: [Slot<N>; SLOTS],
    pub(super) next: AtomicPtr<Slots<N>>,
}

impl<N: Retire> Slots<N> {
    /// All free, with no node.
    pub(super) fn new() -> Self {
        let slot = |at: usize| {
            let kept = Kept {
                left: Chain::EMPTY,
                retired: Chain::EMPTY,
                limbo: Chain::EMPTY,
                ready: Chain::EMPTY,
                due: 0,
                dice: seed(at),
            };
            Slot { state: AtomicU64::new(FREE), latest: AtomicU64::new(0), kept: UnsafeCell::new(kept) }
        };
        Slots { slots: std::array::from_fn(slot), next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl<N: Retire> Slots<N> {
    /// The next piece, which is made if there is none.
    pub(super) fn next(&self) -> &Slots<N> {
        let next = self.next.load(Ordering::SeqCst);
        // SAFETY: pieces live as long as the epochs, and so does this one.
        unsafe { next.as_ref() }.unwrap_or_else(|| self.next_slow())
    }

    fn next_slow(&self) -> &Slots<N> {
        let made = Box::into_raw(Box::new(Slots::new()));
        // Sequentially consistent, as all that stands between a claim and the look of a thread that
        // advances.
        match self.next.compare_exchange(ptr::null_mut(), made, Ordering::SeqCst, Ordering::SeqCst) {
            // SAFETY: pieces live as long as the epochs.
            Ok(_) => unsafe { &*made },
            Err(others) => {
                // SAFETY: made above, and no other thread knows of it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as above.
                unsafe { &*others }
            }
        }
    }
}

impl<N> Slot<N> {
    /// Takes the slot and pins the epoch, if no thread has it.
    #[inline(always)]
    pub(super) fn claim(&self, epoch: u64) -> bool {
        // Acquire pairs with the release of the thread that left the slot: its lists are as that
        // thread left them.
        self.state.compare_exchange(FREE, pinned(epoch), Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// The first and the last epoch of the pin; `None` if no thread has the slot.
    pub(super) fn interval(&self) -> Option<(u64, u64)> {
        // Sequentially consistent, and acquire: see *Memory orderings* of the epochs.
        let state = self.state.load(Ordering::SeqCst);
        let first = state >> 1;
        // What an earlier claim left in `latest` is lower, or makes the interval longer than it is.
        (state != FREE).then(|| (first, self.latest.load(Ordering::SeqCst).max(first)))
    }
}

/// The state of a slot that pins this.
#[inline(always)]
pub(super) const fn pinned(epoch: u64) -> u64 {
    epoch << 1 | 1
}

platform::os_only! {
    use crate::xorshift::{self, xorshift};

    /// The first state of a slot's generator, which is not 0.
    fn seed(slot: usize) -> u64 {
        xorshift::seed(slot as u64 + 1)
    }

    #[inline(always)]
    pub(super) const fn rolled(dice: u64) -> u64 {
        xorshift(dice)
    }
}

platform::twins_only! {
    /// Rolls are counted there, so that tests know what comes.
    fn seed(_slot: usize) -> u64 {
        0
    }

    pub(super) const fn rolled(dice: u64) -> u64 {
        dice + 1
    }
}
