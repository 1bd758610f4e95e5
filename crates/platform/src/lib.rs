//! What the machine offers: atomics, futexes, clocks, sleep, CPUs, memory, signals. The only place
//! with system calls.
//!
//! Algorithms say `use platform::…` and nothing else about the machine, so that the same source
//! also compiles on a twin of this package (`platform-loom`, a model checker; `platform-shuttle`, a
//! sampler of schedules). A twin has the modules [`atomic`], [`cell`], [`futex`], [`clock`],
//! [`constant`], [`cpu`], [`thread`] and the macros, and the simulated machine has files
//! ([`mod@file`], [`folder`], [`usage`]). The others are for code that only makes sense on the real
//! machine.
//!
//! What differs between the machines, and how source is written that suits both:
//!
//! | difference | what to write |
//! | --- | --- |
//! | a twin's atomics have no `const fn new` | [`const_fn!`] around constructors, [`global!`] around statics |
//! | spinning hides lost wake-ups from a model checker | [`spin_bound`] around every number of spins |
//! | layout and `const` tables exist here only | [`os_only!`] around them, [`twins_only!`] around what stands for them |
//! | on some twins no time passes, and no kernel has files | [`timed!`] around what needs them, [`untimed!`] around what stands for it |
//! | thread-locals die with an execution there | [`thread_local!`] |

#[cfg(not(target_os = "linux"))]
compile_error!("manx runs on Linux only: it waits by the kernel's futexes");
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("manx runs on x86-64 and AArch64 only: its system calls are written for these");

pub mod atomic;
#[cfg(target_arch = "x86_64")]
pub mod cancel;
pub mod cell;
pub mod clock;
pub mod constant;
pub mod cpu;
mod deadline;
mod duration;
pub mod file;
mod file_lock;
pub mod folder;
pub mod fork;
pub mod futex;
mod kind;
pub mod limits;
mod macros;
pub mod memory;
pub mod own_file;
pub mod perf;
pub mod pidfd;
mod scheduling_class;
pub mod signal;
pub mod syscall;
pub mod thread;
pub mod usage;

pub use cpu::spin_bound;

/// Whether the execution that this code belongs to has failed, so that destructors must leave
/// shared state alone: never. A model checker ends an execution by unwinding its threads, outside
/// of the model.
///
/// ```
/// assert!(!platform::execution_failed());
/// ```
#[inline(always)]
pub const fn execution_failed() -> bool {
    false
}
