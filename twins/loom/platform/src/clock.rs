//! Time: a counter of nanoseconds that starts with each execution and moves by a little when
//! somebody looks, and by the length of each sleep.
//!
//! It is the same in every replay of an execution, which loom needs, and no algorithm may lean on
//! more than that it never goes back.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;
/// How much time passes between two looks.
const LOOK_NS: u64 = 10;

// The standard library's atomic: time is no step that loom should try in every order.
crate::global! {
    static NOW_NS: AtomicU64 = AtomicU64::new(SECOND_NS);
}

/// Nanoseconds of a clock that never steps back.
pub fn now_ns() -> u64 {
    advance(LOOK_NS)
}

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

/// Lets time pass.
pub(crate) fn advance(ns: u64) -> u64 {
    NOW_NS.fetch_add(ns, Ordering::Relaxed).saturating_add(ns)
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
