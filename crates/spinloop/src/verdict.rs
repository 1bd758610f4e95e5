//! What is said of a PAUSE.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// What a candidate turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A loop that waits for another thread: worth waiting adaptively in.
    Wait(Loop),
    /// A PAUSE that is left alone.
    Leave(Reason),
    /// The two bytes are part of another instruction.
    NotAnInstruction,
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
    /// Where these blocks lie, in ascending order; parts that touch are one. See [`crate::copy`].
    pub parts: Vec<Range<u64>>,
    /// The part of the function that holds the PAUSE.
    pub function: Range<u64>,
}

/// Why a PAUSE is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// An exit of the loop is decided by a counter: it ends by itself.
    Counted,
    /// An exit of the loop is decided by the time: it ends by itself.
    Timed,
    /// No exit of the loop depends on memory that the loop reads again.
    NoLoad,
    /// The loop has no exit.
    NoExit,
    /// Every round calls a function or the kernel.
    Calls,
    /// The PAUSE is not in a loop of its own function.
    NotInALoop,
    /// The shortest round is longer than a busy-wait loop's.
    TooLong,
    /// No unwind information tells which function holds the PAUSE.
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
            Reason::Calls => "calls in every round",
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
