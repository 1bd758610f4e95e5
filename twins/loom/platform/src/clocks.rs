//! The clocks that are one and the same here.

use crate::clock::now_ns;
pub use crate::ticks::*;

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
