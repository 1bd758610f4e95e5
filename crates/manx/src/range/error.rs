//! What can be wrong with a range, and why a range could not be had.

use std::fmt;

/// A range that has no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BadRange {
    /// It ends where it begins.
    Empty,
    /// It ends before it begins.
    Inverted,
}

impl fmt::Display for BadRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            BadRange::Empty => "the range is empty: its end is its start, and ends do not belong to ranges",
            BadRange::Inverted => "the range is inverted: its end is before its start",
        })
    }
}

impl std::error::Error for BadRange {}

impl From<std::convert::Infallible> for BadRange {
    fn from(never: std::convert::Infallible) -> BadRange {
        match never {}
    }
}
