//! The result of an analysis: what a seed is.

use crate::counter::Counter;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// What a seed turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A wait for another thread, which an adaptive wait can replace.
    Wait(Loop),
    /// A seed that is left alone.
    Leave(Reason),
    /// No instruction begins there, or it shows nothing: it is padding, or its loop was found by
    /// another seed.
    Nothing,
}

/// How a wait ends if the event that it waits for does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It does not end.
    Unbounded,
    /// After a number of rounds, and nothing else lasts from round to round.
    Counted(Counter),
    /// After a time.
    Timed,
    /// The hint is in a function that the loop calls, or the loop calls functions. Then the whole
    /// loop is not known. Only the instructions that the jump replaces are copied.
    Hint,
    /// The pivot is the entry of a function by which threads poll: the loops are in its callers.
    /// Only the instructions that the jump replaces are copied. Or it is a call in a loop that
    /// polls by calls: then the copy stands between the loop and the function that it calls.
    Poll,
}

impl Kind {
    /// Whether the loop is known, so that its copy is the whole loop.
    pub const fn is_loop(&self) -> bool {
        !matches!(self, Kind::Hint | Kind::Poll)
    }
}

/// A busy-wait loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The address of the loop's first block.
    pub head: u64,
    /// The address of the jump that closes the loop.
    pub latch: u64,
    /// The bytes of all blocks of the loop.
    pub bytes: u32,
    /// Where these blocks lie, in ascending order; parts that touch are one. See [`crate::copy()`].
    pub parts: Vec<Range<u64>>,
    /// The part of the function that holds the pivot.
    pub function: Range<u64>,
    /// How it ends.
    pub kind: Kind,
    /// The address of an instruction that every round passes. The visit happens before it.
    pub pivot: u64,
    /// The block of the pivot.
    pub home: Range<u64>,
    /// Whether there are rounds inside its rounds, which do not pass the pivot. What they wait for,
    /// and how long, is another matter.
    pub nests: bool,
}

/// Why a seed is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// A counter decides an exit of the loop, and cannot be moved on.
    Counted,
    /// The time decides an exit of the loop, and memory decides none: it is a delay.
    Timed,
    /// No exit of the loop depends on memory that the loop reads again.
    NoLoad,
    /// The loop has no exit.
    NoExit,
    /// Rounds change something that lasts: the loop does work.
    Works,
    /// The PAUSE is not in a loop of its own function, and the function is too large to be a hint
    /// itself.
    NotInALoop,
    /// The shortest round is longer than a busy-wait loop's.
    TooLong,
    /// No unwind information tells which function holds it.
    NoFunction,
    /// The function does not decode, or is too large.
    Undecodable,
}

impl Reason {
    /// The reason in a few words, for tables.
    pub const fn words(self) -> &'static str {
        match self {
            Reason::Counted => "ends by a counter",
            Reason::Timed => "ends by the clock",
            Reason::NoLoad => "re-reads no memory",
            Reason::NoExit => "has no exit",
            Reason::Works => "works in every round",
            Reason::NotInALoop => "not in a loop",
            Reason::TooLong => "loop too long",
            Reason::NoFunction => "no unwind information",
            Reason::Undecodable => "does not decode",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
