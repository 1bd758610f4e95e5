//! The CPU counts that the program asks for: what it really gets, instead of what the machine has.
//!
//! A program with a quota of one CPU on a machine of 64 that starts a thread for each CPU has 64
//! threads that wait for one another. It asked `sysconf`, or `get_nprocs` (which C++'s
//! `hardware_concurrency` is), and neither knows of quotas or of affinities. So these are answered
//! here, by `manx::cpu::CpuBudget`.
//!
//! 1. **Never more than the C library says.** Its function is called first, whatever the program
//!    asks for, and an answer is only ever made smaller, never smaller than 1. Errors, and every
//!    other name of `sysconf`, are the C library's.
//! 2. **A number of a CPU stays one.** Programs size tables by the *configured* CPUs and index them
//!    by `sched_getcpu`; Java's collector does. So that count is left alone, unless
//!    `cpus_also=configured` says that the program does no such thing.
//! 3. **A mask can be bound to.** A program asks for its affinity to count its bits, or to bind
//!    threads to them. The mask is left alone, except for callers that are known to count only
//!    ([`callers`]), unless `cpus_also=affinity` says that this program only counts. What is taken
//!    from a mask are its last CPUs, so what is left are CPUs that threads can be bound to. A mask
//!    of no more than the count is never touched. A caller that itself rounds quotas up gets the
//!    budget rounded up; all others get it rounded down.
//! 4. **Callable anywhere.** `sysconf` may be called by signal handlers, by memory allocators, by a
//!    child between `fork` and `exec`, and before our constructor has run. No lock is taken, the
//!    program's `malloc` is not called, no descriptor stays open, `errno` is kept. See
//!    [`reported`].
//!
//! | file | its part |
//! | --- | --- |
//! | [`reported`] | the number of CPUs that is reported to the program now |
//! | [`callers`] | the callers that ask for an affinity mask only to count it |
//! | [`mask`] | an affinity mask made smaller |
//! | `calls` | the C library's functions |

pub mod callers;
#[cfg(not(test))]
pub mod calls;
pub mod mask;
pub mod reported;
