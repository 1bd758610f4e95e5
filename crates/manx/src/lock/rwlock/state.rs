//! The state of the readers-writer lock: its bits, and two functions of them that say which threads
//! may enter and which are to be woken. The tables stand at the head of [`super`].

use platform::futex;

/// One reader.
pub(super) const READER: u64 = 1;
/// All readers: 22 bits.
pub(super) const READERS: u64 = (1 << 22) - 1;
/// No more readers than this.
pub(super) const READERS_MAX: u64 = 1 << 21;
/// An upgradable reader holds the lock.
pub(super) const UPGRADABLE: u64 = 1 << 22;
/// It waits to be the writer, and its window is over.
pub(super) const UPGRADING: u64 = 1 << 23;
/// One starving reader, and all of them: 12 bits.
pub(super) const STARVING_READER: u64 = 1 << 24;
pub(super) const STARVING_READERS: u64 = 0xfff << 24;
/// One starving writer, and all of them: 12 bits. Starving upgradable readers are counted here.
pub(super) const STARVING_WRITER: u64 = 1 << 36;
pub(super) const STARVING_WRITERS: u64 = 0xfff << 36;
/// A writer holds the lock.
pub(super) const WRITER: u64 = 1 << 48;
/// With starving waiters of both kinds: the readers go first.
pub(super) const READERS_TURN: u64 = 1 << 55;
/// The lock's own window: the upper eight bits, as in a mutex's second word
/// ([`crate::lock::bounded`]).
const WINDOW: u64 = 0xff << 56;

/// How far to shift the state for what the kernel compares, and for the mutex's second word.
const UPPER: u32 = 32;
/// Every bit that a waiter sets to announce its sleep is in the half that the kernel compares
/// (Invariant 3).
const _: () = assert!((ASLEEP >> UPPER) << UPPER == ASLEEP);

/// The half of the state that the kernel compares. It has the lock's window where the mutex's
/// second word has it.
pub(super) const fn upper(state: u64) -> u32 {
    (state >> UPPER) as u32
}

/// The state of a free lock with this window, encoded as for a mutex's second word.
pub(super) const fn free(window: u32) -> u64 {
    ((window as u64) << UPPER) & WINDOW
}

/// Waiters that sleep for the same thing.
#[derive(Debug)]
pub(super) struct Rank {
    /// Some of them sleep, perhaps.
    pub(super) asleep: u64,
    /// The futex set in which they sleep.
    pub(super) set: u32,
    /// What keeps them out, and what does so while it is the readers' turn.
    barred_by: u64,
    barred_by_in_turn: u64,
}

const READERS_WAIT: Rank = Rank {
    asleep: 1 << 49,
    set: 1,
    barred_by: WRITER | UPGRADING | STARVING_WRITERS,
    barred_by_in_turn: WRITER | UPGRADING | STARVING_WRITERS,
};
const WRITERS_WAIT: Rank = Rank {
    asleep: 1 << 50,
    set: 1 << 1,
    barred_by: WRITER | UPGRADABLE | READERS | STARVING_READERS | STARVING_WRITERS,
    barred_by_in_turn: u64::MAX,
};
const UPGRADABLES_WAIT: Rank = Rank {
    asleep: 1 << 51,
    set: 1 << 2,
    barred_by: WRITER | UPGRADABLE | STARVING_WRITERS,
    barred_by_in_turn: WRITER | UPGRADABLE | STARVING_WRITERS,
};
const STARVING_READERS_WAIT: Rank = Rank {
    asleep: 1 << 52,
    set: 1 << 3,
    barred_by: WRITER | UPGRADING | STARVING_WRITERS,
    barred_by_in_turn: WRITER | UPGRADING,
};
const STARVING_WRITERS_WAIT: Rank = Rank {
    asleep: 1 << 53,
    set: 1 << 4,
    barred_by: WRITER | UPGRADABLE | READERS,
    barred_by_in_turn: u64::MAX,
};
const UPGRADER_WAITS: Rank =
    Rank { asleep: 1 << 54, set: 1 << 5, barred_by: READERS, barred_by_in_turn: READERS };

const RANKS: [Rank; 6] = [
    READERS_WAIT,
    WRITERS_WAIT,
    UPGRADABLES_WAIT,
    STARVING_READERS_WAIT,
    STARVING_WRITERS_WAIT,
    UPGRADER_WAITS,
];

/// The flags of all ranks.
const ASLEEP: u64 = READERS_WAIT.asleep
    | WRITERS_WAIT.asleep
    | UPGRADABLES_WAIT.asleep
    | STARVING_READERS_WAIT.asleep
    | STARVING_WRITERS_WAIT.asleep
    | UPGRADER_WAITS.asleep;

impl Rank {
    /// The first table of the module's text.
    #[inline(always)]
    pub(super) const fn may_enter(&self, state: u64) -> bool {
        state & (if state & READERS_TURN == 0 { self.barred_by } else { self.barred_by_in_turn }) == 0
    }
}

/// What distinguishes readers, writers, upgradable readers, and the one that upgrades.
#[derive(Debug)]
pub(super) struct Kind {
    /// What entering adds to the state.
    pub(super) enters: u64,
    /// One starving waiter, and all of them.
    pub(super) starving_one: u64,
    pub(super) starving_all: u64,
    /// Their ranks before and after their windows are over.
    pub(super) waits: Rank,
    pub(super) starving: Rank,
    /// It may count as starving while none of these is set (Invariant 6).
    pub(super) joins_unless: u64,
    /// What a woken thread sets when it enters or gives up: other waiters may sleep for which no
    /// other thread was woken (Invariant 5).
    pub(super) hands_on: u64,
    pub(super) hands_on_starving: u64,
}

pub(super) const READ: Kind = Kind {
    enters: READER,
    starving_one: STARVING_READER,
    starving_all: STARVING_READERS,
    waits: READERS_WAIT,
    starving: STARVING_READERS_WAIT,
    joins_unless: READERS_TURN,
    hands_on: WRITERS_WAIT.asleep,
    hands_on_starving: WRITERS_WAIT.asleep,
};

pub(super) const WRITE: Kind = Kind {
    enters: WRITER,
    starving_one: STARVING_WRITER,
    starving_all: STARVING_WRITERS,
    waits: WRITERS_WAIT,
    starving: STARVING_WRITERS_WAIT,
    joins_unless: 0,
    hands_on: WRITERS_WAIT.asleep,
    hands_on_starving: WRITERS_WAIT.asleep | STARVING_WRITERS_WAIT.asleep,
};

/// A reader that may become the writer. It starves as a writer does.
pub(super) const READ_UPGRADABLY: Kind = Kind {
    enters: UPGRADABLE,
    starving_one: STARVING_WRITER,
    starving_all: STARVING_WRITERS,
    waits: UPGRADABLES_WAIT,
    starving: STARVING_WRITERS_WAIT,
    joins_unless: 0,
    hands_on: UPGRADABLES_WAIT.asleep | WRITERS_WAIT.asleep,
    hands_on_starving: UPGRADABLES_WAIT.asleep | WRITERS_WAIT.asleep | STARVING_WRITERS_WAIT.asleep,
};

/// The upgradable reader on its way to be the writer.
pub(super) const UPGRADE: Kind = Kind {
    enters: WRITER - UPGRADABLE,
    starving_one: UPGRADING,
    starving_all: UPGRADING,
    waits: UPGRADER_WAITS,
    starving: UPGRADER_WAITS,
    joins_unless: 0,
    hands_on: 0,
    hands_on_starving: 0,
};

/// A state as a step may leave it (Invariants 3 and 4), and what the step is to do then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) state: u64,
    pub(super) wakes: Wakes,
}

/// The flags that a step has cleared: of ranks that may enter now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wakes(u64);

impl Settled {
    /// A state that lets no rank in that was kept out before.
    #[inline]
    pub(super) const fn as_it_is(state: u64) -> Settled {
        Settled { state, wakes: Wakes(0) }
    }

    /// Clears the flags of the ranks that may enter in this state, and what stands for starving
    /// waiters that are not there.
    #[inline]
    pub(super) const fn of(mut state: u64) -> Settled {
        if state & (ASLEEP | READERS_TURN) == 0 {
            return Settled::as_it_is(state);
        }
        if state & STARVING_READERS == 0 {
            state &= !(READERS_TURN | STARVING_READERS_WAIT.asleep);
        }
        if state & STARVING_WRITERS == 0 {
            state &= !STARVING_WRITERS_WAIT.asleep;
        }
        if state & UPGRADABLE == 0 {
            state &= !UPGRADER_WAITS.asleep;
        }
        let mut wakes = 0;
        let mut rank = 0;
        while rank < RANKS.len() {
            if RANKS[rank].may_enter(state) {
                wakes |= state & RANKS[rank].asleep;
            }
            rank += 1;
        }
        Settled { state: state & !wakes, wakes: Wakes(wakes) }
    }
}

impl Wakes {
    /// Returns whether there is no thread to wake.
    #[inline]
    pub(super) const fn none(self) -> bool {
        self.0 == 0
    }

    /// Wakes all readers that sleep at this address, one upgradable reader and the upgrader; or one
    /// writer if none of those sleeps there. Returns whether it woke a thread. Nothing is read from
    /// the address.
    #[cold]
    pub(super) fn wake(self, place: *const platform::atomic::AtomicU32) -> bool {
        let wake = |count, ranks: &[Rank]| {
            let wanted = ranks.iter().filter(|rank| self.0 & rank.asleep != 0);
            let sets = wanted.fold(0, |sets, rank| sets | rank.set);
            sets != 0 && futex::wake_set(place, count, sets) > 0
        };
        let woke_a_reader = wake(u32::MAX, &[READERS_WAIT, STARVING_READERS_WAIT])
            | wake(1, &[UPGRADABLES_WAIT])
            | wake(1, &[UPGRADER_WAITS]);
        woke_a_reader || wake(1, &[STARVING_WRITERS_WAIT]) || wake(1, &[WRITERS_WAIT])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state of a few readers and starving waiters, reachable or not.
    fn states() -> impl Iterator<Item = u64> {
        let parts = [READER, STARVING_READER, STARVING_WRITER].map(|one| [0, one, 2 * one]);
        let flags = (0..1 << 10).map(|bits| ((bits >> 2) * WRITER) | ((bits & 3) * UPGRADABLE));
        flags.flat_map(move |flags| {
            (0..27_usize).map(move |at| flags | parts[0][at % 3] | parts[1][at / 3 % 3] | parts[2][at / 9])
        })
    }

    #[test]
    fn a_settled_state_has_no_flag_of_a_rank_that_may_enter() {
        for state in states() {
            let settled = Settled::of(state);
            for rank in &RANKS {
                let left = settled.state & rank.asleep != 0;
                assert!(!left || !rank.may_enter(settled.state), "{state:x}");
                let woken = settled.wakes.0 & rank.asleep != 0;
                assert!(!woken || rank.may_enter(settled.state), "{state:x}");
            }
            assert_eq!(Settled::of(settled.state), Settled::as_it_is(settled.state), "{state:x}");
        }
    }

    #[test]
    fn no_flag_is_dropped_whose_rank_may_sleep() {
        for state in states() {
            let settled = Settled::of(state);
            let gone = state & ASLEEP & !settled.state & !settled.wakes.0;
            let plain = READERS_WAIT.asleep | WRITERS_WAIT.asleep | UPGRADABLES_WAIT.asleep;
            assert!(gone & plain == 0, "{state:x}");
            assert!(gone & UPGRADER_WAITS.asleep == 0 || state & UPGRADABLE == 0);
            assert!(gone & STARVING_READERS_WAIT.asleep == 0 || state & STARVING_READERS == 0);
            assert!(gone & STARVING_WRITERS_WAIT.asleep == 0 || state & STARVING_WRITERS == 0);
        }
    }

    #[test]
    fn a_woken_thread_hands_on_every_flag_that_was_cleared_with_its_own_and_woke_nobody() {
        let kinds = [
            (&READ.waits, &READ),
            (&READ.starving, &READ),
            (&WRITE.waits, &WRITE),
            (&READ_UPGRADABLY.waits, &READ_UPGRADABLY),
        ];
        for state in states() {
            let wakes = Settled::of(state).wakes.0;
            let readers = READERS_WAIT.asleep
                | STARVING_READERS_WAIT.asleep
                | UPGRADABLES_WAIT.asleep
                | UPGRADER_WAITS.asleep;
            for (rank, kind) in kinds {
                if wakes & rank.asleep != 0 {
                    // All readers are woken together, and an upgradable reader and the upgrader
                    // with them.
                    assert_eq!(wakes & !(rank.asleep | readers | kind.hands_on), 0, "{state:x}");
                }
            }
            if wakes & WRITE.starving.asleep != 0 {
                assert_eq!(wakes, WRITE.starving.asleep, "{state:x}");
            }
        }
    }

    #[test]
    fn some_thread_may_enter_a_lock_that_nobody_holds() {
        for state in states().filter(|state| state & (WRITER | READERS | UPGRADABLE | UPGRADING) == 0) {
            let state = Settled::of(state).state;
            let starving = [(&READ, STARVING_READERS), (&WRITE, STARVING_WRITERS)];
            let waiting = starving.iter().filter(|(_, all)| state & all != 0);
            let mut ranks = waiting.map(|(kind, _)| &kind.starving).peekable();
            if ranks.peek().is_some() {
                assert!(ranks.any(|rank| rank.may_enter(state)), "{state:x}");
            } else {
                for kind in [&READ, &WRITE, &READ_UPGRADABLY] {
                    assert!(kind.waits.may_enter(state), "{state:x}");
                }
            }
        }
    }

    #[test]
    fn a_window_is_where_the_mutex_has_it() {
        let window = crate::lock::bounded::with_window_ns(3_000_000);
        assert_eq!(upper(free(window)), window);
        assert_eq!(Settled::of(free(window)), Settled::as_it_is(free(window)));
    }
}
