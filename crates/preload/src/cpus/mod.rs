//! The CPU counts that the program asks for: what it really gets, instead of what the machine has.
//!
//! A program with a quota of one CPU on a machine of 64 that starts a thread for each CPU has 64
//! threads that wait for one another. It asked `sysconf`, or `get_nprocs` (which C++'s
//! `hardware_concurrency` is), and neither knows of quotas or of affinities. So these are answered
//! here, by `manx::cpu::CpuBudget`, where the answer can only be a number of threads.
//!
//! 1. **Never more than the C library says.** Its function is called first, whatever the program
//!    asks for, and an answer is only ever made smaller, never smaller than 1. Errors, and every
//!    other name of `sysconf`, are the C library's.
//! 2. **A number of a CPU stays one.** Programs size tables by the *configured* or the *online*
//!    CPUs and index them by `sched_getcpu`, as Java's collector does; others bind worker *i* to
//!    CPU *i*, and with a lower count would meet on the first CPUs, in every container of a
//!    machine. So the configured CPUs are left alone, and the online CPUs for each caller that
//!    could do so ([`callers::takes_fewer`]), unless `cpus_also` says that the program does no such
//!    thing.
//! 3. **A mask can be bound to.** A program asks for its affinity to count its bits, or to bind
//!    threads to them. The mask is left alone, except for callers that are known to count only
//!    ([`callers`]), unless `cpus_also=affinity` says that this program only counts. What is left
//!    of a mask are CPUs of it, so threads can be bound to them: those from the CPU on which the
//!    program was started on, so that the programs of a machine do not meet on its first CPUs. A
//!    mask of no more than the count is never touched. A caller that itself rounds quotas up gets
//!    the budget rounded up; all others get it rounded down.
//! 4. **A pace is not seen.** What a helper of ours takes away for some milliseconds is no number
//!    of CPUs to remember.
//! 5. **Callable anywhere.** `sysconf` may be called by signal handlers, by memory allocators, by a
//!    child between `fork` and `exec`, and before our constructor has run. No lock is taken, the
//!    program's `malloc` is not called, no descriptor stays open, `errno` is kept. See
//!    [`reported`].
//!
//! | file | its part |
//! | --- | --- |
//! | [`reported`] | the number of CPUs that is reported to the program now |
//! | [`callers`] | what callers do with the number of CPUs |
//! | [`mask`] | an affinity mask made smaller |
//! | [`paced`] | an affinity mask that the helper of a quota has made smaller for a moment |
//! | `calls` | the C library's functions |

pub mod callers;
#[cfg(not(test))]
pub mod calls;
pub mod mask;
pub mod paced;
pub mod reported;
