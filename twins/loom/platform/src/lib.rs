//! The platform interface on loom, for model checking.
//!
//! The same modules, functions and macros as `platform` has for algorithms, so that one source
//! compiles on both; what only makes sense on the real machine (memory, signals, files) is not
//! here. Everything below works inside a loom model only.
//!
//! | on the machine | here |
//! | --- | --- |
//! | atomics, cells, thread-locals, threads | loom's |
//! | a futex | a queue in plain memory; its waiters park by loom ([`futex`]) |
//! | a pause, a yield, a sleep | loom's yield: others go first |
//! | time | a counter that moves when it is read or slept on ([`clock`]) |
//! | a timeout | has passed at once |
//! | a static | is made anew in each execution ([`global!`]) |
//! | spinning | never: [`spin_bound`] |

pub mod atomic;
pub mod cell;
pub mod clock;
mod clocks;
#[path = "../../../../crates/platform/src/constant.rs"]
pub mod constant;
pub mod cpu;
#[path = "../../../../crates/platform/src/deadline.rs"]
mod deadline;
#[path = "../../../../crates/platform/src/duration.rs"]
mod duration;
pub mod fork;
pub mod futex;
mod macros;
mod queue;
#[path = "../../../../crates/platform/src/scheduling_class.rs"]
mod scheduling_class;
pub mod thread;
mod ticks;
mod untimed;

#[doc(hidden)]
pub use loom as checker;

/// How often a loop may spin that would like to spin `_wanted` times: not at all. A thread that
/// spins sees what it waits for in the end, whether or not it would have been woken.
#[inline(always)]
pub const fn spin_bound(_wanted: u32) -> u32 {
    0
}

/// Whether the execution that this code belongs to has failed, so that destructors must leave
/// shared state alone: loom unwinds all threads then, and its atomics do not work any more.
pub fn execution_failed() -> bool {
    std::thread::panicking()
}
