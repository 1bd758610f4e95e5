//! The platform interface on a simulated machine: one source, machines that one does not own.
//!
//! The same modules, functions and macros as `platform` has for algorithms. Loom and shuttle know
//! orders of steps; here steps take *time*. A machine is described by a file: CPUs and how fast
//! they are, how far a cache line has to go, what calls cost, how the scheduler decides. The same
//! program with the same seed does the same each time, to the nanosecond.
//!
//! | file | what |
//! | --- | --- |
//! | [`machine`] | a machine's description, read from a file |
//! | [`lines`] | cache lines: which CPUs have one, how long an access takes |
//! | [`fair`], [`eevdf`], `cfs.rs`, `realtime.rs` | which thread a CPU runs next |
//! | [`kernel`] | virtual time; threads that run, wait and sleep on CPUs; its table has the files of its parts |
//! | [`simulation`] | runs a program: threads are coroutines |
//! | `procfs.rs`, [`mod@file`], [`folder`], [`usage`] | what the kernel says in `/proc` and `/sys` |
//! | `processes.rs`, `shared_files.rs` | processes, and files by which they share memory |
//! | [`atomic`], [`cell`], [`clock`], [`cpu`], [`futex`], [`thread`], [`mod@global`] and the macros | the interface |
//!
//! What is not modelled: weak memory orders (loom checks these), the depth of caches, memory
//! bandwidth, groups of threads with a weight of their own. A program may start processes
//! ([`thread::spawn_process`]). Each has a number, statics and a CPU clock of its own, and sees the
//! others in `/proc`. All have one address space: what one gives another, they pass in memory.
//! Starting one takes as long as starting a thread.
//!
//! The lines of objects follow from their addresses. So that these are the same in each run, a
//! program that measures sets [`memory::Allocator`] as its allocator.

mod arena;
pub mod atomic;
mod bandwidth;
pub mod cell;
mod cfs;
pub mod chance;
pub mod clock;
pub mod constant;
pub mod cpu;
#[path = "../../../../crates/platform/src/deadline.rs"]
mod deadline;
#[path = "../../../../crates/platform/src/duration.rs"]
mod duration;
pub mod eevdf;
mod events;
pub mod fair;
pub mod file;
pub mod folder;
#[path = "../../../loom/platform/src/fork.rs"]
pub mod fork;
pub mod futex;
pub mod global;
mod interruption;
pub mod kernel;
pub mod lines;
pub mod machine;
#[path = "../../../loom/platform/src/macros.rs"]
mod macros;
pub mod memory;
pub mod own_file;
mod placement;
mod processes;
mod processor;
mod procfs;
mod queue;
mod realtime;
mod schedule;
#[path = "../../../../crates/platform/src/scheduling_class.rs"]
mod scheduling_class;
mod scope;
mod shared_files;
pub mod simulation;
mod start;
pub mod task;
pub mod thread;
#[path = "../../../loom/platform/src/ticks.rs"]
mod ticks;
mod timed;
mod timers;
pub mod trace;
pub mod usage;
mod waiters;

/// How often a loop may spin that would like to spin `wanted` times: as often as it likes.
#[inline(always)]
pub const fn spin_bound(wanted: u32) -> u32 {
    wanted
}

/// Whether the run that this code belongs to has failed, so that destructors must leave shared
/// state alone.
pub fn execution_failed() -> bool {
    std::thread::panicking()
}

/// What the twins' macros are made of here.
#[doc(hidden)]
pub mod checker {
    pub use crate::{simulated_local as thread_local, simulated_static as lazy_static};
}
