//! libmanx: epochs, mutexes, condition variables, readers-writer locks, range locks and the CPU
//! budget for C and C++.
//!
//! The functions are thin: what they do is told in `manx`. What C adds:
//! - Objects are eight bytes, all-zero is their initial state, and nothing has to be destroyed; but
//!   for range locks, which are made and destroyed ([`range`]).
//! - Results are those of the `pthread` functions: 0, or an error number. `errno` is left alone.
//! - Points in time are nanoseconds of `CLOCK_MONOTONIC`.
//! - Nothing here is a cancellation point.
//! - No panic gets out: the only known one is caught ([`rwlock`]), and any other ends the process
//!   at the border, because that is what `extern "C"` means.
//!
//! If the preload library is in the process, there is one table of epochs, which is that library's
//! (`elsewhere.rs`).
//!
//! `include/manx.h`, `include/manx_range.h` and `include/manx_cpu.h` are generated from these
//! files, and a test says when they are no longer true. After a change: `MANX_BLESS=1 cargo test -p
//! capi --test header`.

pub mod cond;
pub mod cpu;
mod elsewhere;
pub mod epoch;
pub mod mutex;
pub mod range;
pub mod rwlock;
mod text;
pub mod version;
