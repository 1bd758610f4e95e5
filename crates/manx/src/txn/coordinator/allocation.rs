//! How a session gets its id, and what another thread does that finds it *allocating*.
//!
//! ```text
//! session                                    a thread that collects the active ids
//!   its bit is set                             current = ids
//!   slot = allocating                          for each slot whose bit is set:
//!   id = ids; ids += 1                           allocating: wait until it is not any more,
//!   slot = active(id)                                        or help: id = ids; ids += 1; allocating -> active(id)
//! ```
//!
//! A thread that collects cannot pass over a slot that is *allocating*: its id may be below the
//! `current` that was just read, and a snapshot without it would show what that transaction writes
//! before it is over. WiredTiger spins there, on `is_allocating`.
//!
//! Help needs no waiting because any id will do, if only it is unique: the helper takes one and
//! puts it into the slot, unless the session was faster. That id is not below the helper's
//! `current`, so the helper need not even note it. The thread that comes second has taken an id
//! that no transaction will ever bear: a gap. A helper may come so late that the session has begun
//! its next transaction, and an id that was taken long ago, above which snapshots were made since,
//! must not become that one's: so *allocating* is another word each time (Invariant 3 of the
//! slots).
//!
//! Invariant 1: a slot goes from *allocating* to *active* once, by a compare-and-swap where several
//! may do it; the id in it is the session's, and was taken while the slot was *allocating*.
//!
//! # Memory orderings
//! `ids` is increased with acquire and release, and read with acquire; *allocating* is stored with
//! release, after the bit. So a thread that reads a `current` above an id, whether the session took
//! it or a helper that had seen it *allocating*, sees the slot of that id as *allocating* or later,
//! and its bit set.

use super::session_slots::{SessionSlot, SlotState, active, allocating, holds};
use crate::wait::{Adaptive, Policy};
use platform::atomic::{AtomicU64, Ordering};

/// What a thread that makes a snapshot does about a session that is just taking its id.
#[derive(Clone, Copy, Debug, Default)]
pub enum Protocol {
    /// Wait by this function, which returns when what it is given says true. For comparisons: the
    /// package `baselines` has WiredTiger's way, which spins, and goes wrong when that session's
    /// thread does not run.
    Wait(fn(&dyn Fn() -> bool)),
    /// Spin a little, then give way, then sleep: the paper's repair.
    Adaptive(Adaptive),
    /// Do it in its place. No thread waits for another one.
    #[default]
    Help,
}

impl Protocol {
    /// The protocols that have no function of the caller's.
    pub const ALL: [Protocol; 2] = [Protocol::Adaptive(Adaptive::DEFAULT), Protocol::Help];
}

/// The ids, and how they are given.
#[derive(Debug)]
pub(super) struct Allocation {
    protocol: Protocol,
    /// The next id.
    ids: AtomicU64,
}

impl Allocation {
    pub(super) fn new(protocol: Protocol, first: u64) -> Allocation {
        Allocation { protocol, ids: AtomicU64::new(first) }
    }

    /// The first id that was not given yet.
    pub(super) fn current(&self) -> u64 {
        // Acquire: see *Memory orderings*.
        self.ids.load(Ordering::Acquire)
    }

    fn next(&self) -> u64 {
        // AcqRel: see *Memory orderings*.
        self.ids.fetch_add(1, Ordering::AcqRel)
    }

    /// Takes an id for the session of this slot. `show` sets its bit.
    #[inline]
    pub(super) fn take(&self, slot: &SessionSlot, show: impl FnOnce()) -> u64 {
        // First: a thread that still sees the bit of the transaction before may help this one, and
        // the next thread that collects has to see it.
        show();
        // Relaxed: what was there is the session's own.
        let allocating = allocating(slot.id.load(Ordering::Relaxed));
        // Release: a thread that helps, and a thread that sees a `current` above the helper's id,
        // see the bit.
        slot.id.store(allocating, Ordering::Release);
        let id = self.next();
        if let Protocol::Help = self.protocol {
            // Acquire: a helper's id is above all that it had seen. Release: pairs with the thread
            // that collects.
            return match slot.id.compare_exchange(allocating, active(id), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => id,
                Err(helped) => id_in(helped),
            };
        }
        // Release: pairs with the thread that waits for it.
        slot.id.store(active(id), Ordering::Release);
        id
    }

    /// The id that is active on this slot, if it is below `current`, which was read before.
    #[inline]
    pub(super) fn active_below(&self, slot: &SessionSlot, current: u64) -> Option<u64> {
        // Acquire: pairs with `take`, and with an end.
        let word = slot.id.load(Ordering::Acquire);
        let mut held = holds(word);
        if held == SlotState::Allocating {
            held = self.resolve(slot, word);
        }
        match held {
            SlotState::Active(id) if id < current => Some(id),
            _ => None,
        }
    }

    /// What is on a slot that was found *allocating*, when that id is taken. If it is *allocating*
    /// again, that is an id that was taken after `current` was read.
    #[cold]
    fn resolve(&self, slot: &SessionSlot, allocating: u64) -> SlotState {
        let look = || slot.id.load(Ordering::Acquire);
        let is_taken = || look() != allocating;
        match self.protocol {
            Protocol::Wait(wait) => wait(&is_taken),
            Protocol::Adaptive(adaptive) => drop(adaptive.until(is_taken)),
            Protocol::Help => {
                let id = self.next();
                // Invariant 1. It is not below the `current` of the thread that asks; if the
                // session was faster, the session's own id counts.
                let _ = slot.id.compare_exchange(allocating, active(id), Ordering::AcqRel, Ordering::Acquire);
            }
        }
        holds(look())
    }
}

fn id_in(word: u64) -> u64 {
    match holds(word) {
        SlotState::Active(id) => id,
        _ => unreachable!("only an id takes the place of allocating"),
    }
}
