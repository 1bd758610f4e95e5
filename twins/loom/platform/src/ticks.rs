//! Ticks, which are nanoseconds on the twins.

use crate::clock::{SECOND_NS, now_ns};
pub use crate::duration::duration_ns;

/// The time in ticks, which are nanoseconds here.
pub fn ticks() -> u64 {
    now_ns()
}

/// How many ticks there are in a second.
pub fn ticks_per_second() -> u64 {
    SECOND_NS
}

/// A stretch of ticks in nanoseconds.
pub fn ticks_to_ns(ticks: u64) -> u64 {
    ticks
}

/// A stretch of nanoseconds in ticks.
pub fn ns_to_ticks(ns: u64) -> u64 {
    ns
}

/// Decides what [`ticks`] counts: nothing to decide here.
pub fn init() {}
