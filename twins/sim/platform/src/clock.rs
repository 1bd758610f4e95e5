//! Time: virtual nanoseconds since the machine began. A look at the clock takes time itself.

use crate::simulation;
pub use crate::ticks::*;

/// Nanoseconds in a second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds of a clock that never steps back; 0 if no program is run.
pub fn now_ns() -> u64 {
    if !simulation::is_inside() {
        return 0;
    }
    simulation::make(|kernel| {
        kernel.work(kernel.machine().cost.clock_ns);
        kernel.now_ns()
    })
}

/// Nanoseconds since the beginning, which is 1970 here.
pub fn unix_time_ns() -> u64 {
    now_ns()
}

/// The CPU time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    if !simulation::is_inside() {
        return 0;
    }
    simulation::make(|kernel| {
        kernel.call();
        kernel.times(kernel.current()).run_ns
    })
}

/// The CPU time that all threads of the calling one's process have used.
pub fn process_cpu_ns() -> u64 {
    if !simulation::is_inside() {
        return 0;
    }
    simulation::make(|kernel| {
        kernel.call();
        kernel.process_ns(kernel.process()).unwrap_or(0)
    })
}
