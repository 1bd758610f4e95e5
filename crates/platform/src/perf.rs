//! What the processor and the kernel count and note while threads run: cycles, instructions, cache
//! misses, page faults; where threads are; how long they sleep.
//!
//! A [`Counter`] belongs to the thread that made it and to every thread that this one starts
//! afterwards. For the figures of a run, make the counters, run, join the threads, and read. Only
//! what happens outside the kernel is counted: that needs no rights by default
//! (`perf_event_paranoid` of 2).
//!
//! A machine need not count anything. Virtual ones often do not; then a counter cannot be made, and
//! the error says so (`ENOENT`). Where there are more counters than the processor has, each one
//! runs for a part of the time only, and [`Reading::estimate`] says what it would have been, or
//! that it never ran.
//!
//! | file | what |
//! | --- | --- |
//! | `event.rs` | what is asked of the kernel, and the descriptor |
//! | `ring.rs` | the memory in which the kernel leaves its records |
//! | `counter.rs` | [`Counter`]: how often something happens |
//! | `sampler.rs` | [`Sampler`]: where a thread, or what runs on a CPU, is in its code |
//! | `off_cpu.rs` | [`OffCpu`]: how long a thread sleeps, and in which call |

mod counter;
mod event;
mod off_cpu;
mod ring;
mod sampler;

pub use counter::{Counter, Event, Reading};
pub use off_cpu::{Call, OffCpu, Sleep, State};
pub use sampler::{Sample, Sampler};

/// The errors by which a machine says that it has no such event, or that this process may not.
#[cfg(test)]
const REFUSALS: [i32; 6] =
    [libc::ENOENT, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM, libc::ENOSYS, libc::ENODEV];
