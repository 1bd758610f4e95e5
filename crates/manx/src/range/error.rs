//! What can be wrong with a range, and why a range could not be had.

use super::deadlock::Deadlock;
use std::fmt;

/// A range that has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidRange {
    /// It ends where it begins.
    Empty,
    /// It ends before it begins.
    Inverted,
    /// It overlaps another member of the same set.
    Overlapping,
    /// It ends behind the last element.
    Outside,
}

impl fmt::Display for InvalidRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            InvalidRange::Empty => {
                "the range is empty: its end is its start, and ends do not belong to ranges"
            }
            InvalidRange::Inverted => "the range is inverted: its end is before its start",
            InvalidRange::Outside => "the range ends behind the last element",
            InvalidRange::Overlapping => "two ranges of the set overlap: merge them, or ask for that",
        })
    }
}

impl std::error::Error for InvalidRange {}

impl From<std::convert::Infallible> for InvalidRange {
    fn from(never: std::convert::Infallible) -> InvalidRange {
        match never {}
    }
}

/// Why a range was not locked. Whatever was held before is still held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockError {
    /// It is no range.
    InvalidRange(InvalidRange),
    /// It would have to be waited for.
    WouldBlock,
    /// It was waited for until the deadline.
    TimedOut,
    /// The lock holds as many ranges as it may.
    TooMany {
        /// The maximum number of ranges, beside the ranges that have room in the lock itself.
        limit: u32,
    },
    /// The holders of the range wait for the asker, directly or through others. Only locks that
    /// look for this report it.
    Deadlock(Box<Deadlock>),
    /// Another holder that shares the range waits to have it alone as well. One of the two has to
    /// release it first. (A lock that looks for circles reports this circle as
    /// [`LockError::Deadlock`].)
    UpgradeDeadlock,
    /// The owner holds no such range.
    NotHeld,
}

impl fmt::Display for LockError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::InvalidRange(bad) => bad.fmt(to),
            LockError::WouldBlock => to.write_str("the range would have to be waited for"),
            LockError::TimedOut => to.write_str("the range could not be had by the deadline"),
            LockError::TooMany { limit } => write!(
                to,
                "the lock holds {limit} ranges beside those it has room for, and may not hold more: release some, lock \
                 wider ranges, or make it with a higher limit"
            ),
            LockError::Deadlock(cycle) => cycle.fmt(to),
            LockError::UpgradeDeadlock => to.write_str(
                "somebody else who shares the range waits to have it alone as well: release it, then lock it again",
            ),
            LockError::NotHeld => to.write_str("the owner holds no such range"),
        }
    }
}

impl std::error::Error for LockError {}

impl From<InvalidRange> for LockError {
    fn from(bad: InvalidRange) -> LockError {
        LockError::InvalidRange(bad)
    }
}
