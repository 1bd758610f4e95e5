//! The platform interface on shuttle, for randomized schedules.
//!
//! The same modules, functions and macros as `platform` has for algorithms, so that one source
//! compiles on both. Everything below works inside of a shuttle execution only. Loom tries every
//! order of steps of a small test; here a large one, with more threads and more rounds, is run in
//! some of its orders, drawn at random ([`explore`]).
//!
//! **Every atomic access is sequentially consistent here**, because shuttle knows no weaker order.
//! A fence that is missing, or an ordering that is too weak, is found by loom (`platform-loom`) or
//! not at all. What is found here: lost wake-ups, counters that leak, and whatever else goes wrong
//! by the order of steps alone.
//!
//! What does not depend on the model checker is one source with `platform-loom`.
//!
//! | on the machine | here |
//! | --- | --- |
//! | atomics, threads, thread-locals | shuttle's; each access is a step |
//! | a cell | reports users that overlap ([`cell`]) |
//! | a futex | a queue in plain memory; chance picks who is woken and who is interrupted ([`futex`]) |
//! | a timeout | may end at any step, before a wake-up or after it ([`futex`]) |
//! | a pause, a yield | others go first where they can |
//! | time | a virtual clock that jumps ([`clock`]) |
//! | a static | is made anew in each execution ([`global!`]) |
//! | spinning | at most once ([`spin_bound`]) |

#[path = "../../../loom/platform/src/atomic.rs"]
pub mod atomic;
pub mod cell;
mod chance;
pub mod clock;
#[path = "../../../loom/platform/src/clocks.rs"]
mod clocks;
#[path = "../../../../crates/platform/src/constant.rs"]
pub mod constant;
pub mod cpu;
#[path = "../../../../crates/platform/src/deadline.rs"]
mod deadline;
#[path = "../../../../crates/platform/src/duration.rs"]
mod duration;
pub mod explore;
#[path = "../../../loom/platform/src/fork.rs"]
pub mod fork;
pub mod futex;
#[path = "../../../loom/platform/src/macros.rs"]
mod macros;
#[path = "../../../loom/platform/src/queue.rs"]
mod queue;
#[path = "../../../../crates/platform/src/scheduling_class.rs"]
mod scheduling_class;
#[path = "../../../loom/platform/src/thread.rs"]
pub mod thread;
#[path = "../../../loom/platform/src/ticks.rs"]
mod ticks;
#[path = "../../../loom/platform/src/untimed.rs"]
mod untimed;

#[doc(hidden)]
pub use shuttle as checker;

/// A loop spins this often at most: once, so that what happens while somebody spins is seen too,
/// and no more, because each look that finds the condition true is one that a lost wake-up hides
/// behind.
pub const SPINS_MAX: u32 = 1;

/// How often a loop may spin that would like to spin `wanted` times.
#[inline(always)]
pub const fn spin_bound(wanted: u32) -> u32 {
    if wanted < SPINS_MAX { wanted } else { SPINS_MAX }
}

/// Whether the execution that this code belongs to has failed, so that destructors must leave
/// shared state alone: who panicked must not run into the next panic.
pub fn execution_failed() -> bool {
    std::thread::panicking()
}
