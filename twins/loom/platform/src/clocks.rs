//! The clocks that are one and the same here.

use crate::clock::{SECOND_NS, now_ns};
pub use crate::duration::duration_ns;

/// Nanoseconds since 1970; no better than [`now_ns`] here.
pub fn unix_time_ns() -> u64 {
    now_ns()
}

/// The CPU time that the calling thread has used; no better than [`now_ns`] here.
pub fn thread_cpu_ns() -> u64 {
    now_ns()
}

/// The CPU time that all threads have used; no better than [`now_ns`] here.
pub fn process_cpu_ns() -> u64 {
    now_ns()
}

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
