//! How a session gets its id, and what somebody does who meets it meanwhile.
//!
//! ```text
//! session                                    who collects the active ids
//!   its bit is set                             current = ids
//!   seat = allocating                          for each seat whose bit is set:
//!   id = ids; ids += 1                           allocating: wait until it is not any more,
//!   seat = active(id)                                        or help: id = ids; ids += 1; allocating -> active(id)
//! ```
//!
//! Who collects cannot pass over a seat that is *allocating*: its id may be below the `current` that was just read, and a snapshot without it
//! would show what that transaction writes before it is over. WiredTiger spins there, on `is_allocating`.
//!
//! Help needs no waiting because any id will do, if only it is unique: the helper takes one and puts it into the seat, unless the session was
//! faster. That id is not below the helper's `current`, so the helper need not even note it. Whoever comes second has taken an id that nobody
//! will ever bear: a gap. A helper may come so late that the session has begun its next transaction, and an id that was taken long ago, above which snapshots
//! were made since, must not become that one's: so *allocating* is another word each time (Invariant 3 of the seats).
//!
//! Invariant 1: a seat goes from *allocating* to *active* once, by a compare-and-swap where several may do it; the id in it is the session's, and was taken
//! while the seat was *allocating*.
//!
//! # Memory orderings
//! `ids` is increased with acquire and release, and read with acquire; *allocating* is stored with release, after the bit. So who reads a `current` above an
//! id, whether the session took it or a helper that had seen it *allocating*, sees the seat of that id as *allocating* or later, and its bit set.

use super::seats::{Holds, Seat, active, allocating, holds};
use crate::wait::{Adaptive, Event, FixedSleep, Policy, Spin, Yield};
use platform::atomic::{AtomicU64, Ordering};

/// What is done about a session that is in the middle of taking an id, when a snapshot is made.
#[derive(Clone, Copy, Debug, Default)]
pub enum Protocol {
    /// Spin until it is done: WiredTiger's way, which goes wrong when that session's thread does not run. To compare with.
    Spin,
    /// Give way to whoever is ready, and look again.
    Yield,
    /// Sleep, and look again.
    Sleep(FixedSleep),
    /// Spin a little, then give way, then sleep: the paper's repair.
    Adaptive(Adaptive),
    /// Sleep until told. Whoever takes an id looks whether somebody is to be told.
    Park,
    /// Do it in its place. Nobody waits for anybody.
    #[default]
    Help,
}

impl Protocol {
    /// Each of them, `Help` last; the sleeps are of 100 µs.
    ///
    /// ```
    /// use manx::txn::coordinator::{Coordinator, Protocol};
    ///
    /// for protocol in Protocol::ALL {
    ///     let coordinator = Coordinator::new(protocol, 1);
    ///     let mut session = coordinator.session()?;
    ///     let id = session.allocate();
    ///     session.end();
    ///     assert!(session.snapshot().sees(id));
    /// }
    /// # Ok::<(), manx::txn::coordinator::TooManySessions>(())
    /// ```
    pub const ALL: [Protocol; 6] = [
        Protocol::Spin,
        Protocol::Yield,
        Protocol::Sleep(FixedSleep::new(100_000)),
        Protocol::Adaptive(Adaptive::DEFAULT),
        Protocol::Park,
        Protocol::Help,
    ];
}

/// The ids, and how they are given.
#[derive(Debug)]
pub(super) struct Allocation {
    protocol: Protocol,
    /// The next id.
    ids: AtomicU64,
    /// An id was taken, for [`Protocol::Park`].
    taken: Event,
}

impl Allocation {
    pub(super) fn new(protocol: Protocol) -> Allocation {
        Allocation { protocol, ids: AtomicU64::new(super::snapshot::FIRST), taken: Event::new() }
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

    /// Takes an id for the session of this seat. `show` sets its bit.
    #[inline]
    pub(super) fn take(&self, seat: &Seat, show: impl FnOnce()) -> u64 {
        // First: who still sees the bit of the transaction before may help this one, and the next one who collects has to see it.
        show();
        // Relaxed: what was there is the session's own.
        let allocating = allocating(seat.id.load(Ordering::Relaxed));
        // Release: who helps, and who sees a `current` above the helper's id, sees the bit.
        seat.id.store(allocating, Ordering::Release);
        let id = self.next();
        if let Protocol::Help = self.protocol {
            // Acquire: a helper's id is above all that it had seen. Release: pairs with who collects.
            return match seat.id.compare_exchange(allocating, active(id), Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => id,
                Err(helped) => id_in(helped),
            };
        }
        // Release: pairs with who waits for it.
        seat.id.store(active(id), Ordering::Release);
        if let Protocol::Park = self.protocol {
            self.taken.signal_all();
        }
        id
    }

    /// The id that is active on this seat, if it is below `current`, which was read before.
    #[inline]
    pub(super) fn active_below(&self, seat: &Seat, current: u64) -> Option<u64> {
        // Acquire: pairs with `take`, and with an end.
        let word = seat.id.load(Ordering::Acquire);
        let mut held = holds(word);
        if held == Holds::Allocating {
            held = self.resolve(seat, word);
        }
        match held {
            Holds::Active(id) if id < current => Some(id),
            _ => None,
        }
    }

    /// What is on a seat that was found *allocating*, when that id is taken. If it is *allocating* again, that is an id that was taken after `current` was read.
    #[cold]
    fn resolve(&self, seat: &Seat, allocating: u64) -> Holds {
        let look = || seat.id.load(Ordering::Acquire);
        let is_taken = || look() != allocating;
        match self.protocol {
            Protocol::Spin => drop(Spin.until(is_taken)),
            Protocol::Yield => drop(Yield.until(is_taken)),
            Protocol::Sleep(sleep) => drop(sleep.until(is_taken)),
            Protocol::Adaptive(adaptive) => drop(adaptive.until(is_taken)),
            Protocol::Park => {
                let mut backoff = self.taken.start();
                while !is_taken() {
                    backoff.wait();
                }
            }
            Protocol::Help => {
                let id = self.next();
                // Invariant 1. It is not below the `current` of whoever asks; if the session was faster, its own counts.
                let _ = seat.id.compare_exchange(allocating, active(id), Ordering::AcqRel, Ordering::Acquire);
            }
        }
        holds(look())
    }
}

fn id_in(word: u64) -> u64 {
    match holds(word) {
        Holds::Active(id) => id,
        _ => unreachable!("only an id takes the place of allocating"),
    }
}
