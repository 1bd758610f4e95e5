//! Mutexes and condition variables of programs that know nothing of it.
//!
//! The program's calls of `pthread_mutex_*` and `pthread_cond_*` come here. What is ours: mutexes
//! of the four ordinary kinds that are private to the process, and condition variables that are
//! private. Everything else goes to the C library untouched: mutexes that are shared between
//! processes, robust, or inherit or protect priorities; readers-writer locks, barriers; and
//! whatever has a state that we do not know. Spin locks ([`spin_lock`](crate::spin_lock)) are the
//! guard's business rather than the option's: their word is the C library's in every mode, and how
//! their waiters wait depends on whether CPUs are short.
//!
//! All state is in the program's own objects ([`object`]), where the C library's own functions
//! understand that of mutexes: they work on the same mutex at the same time, from the C library
//! itself, from a library that was opened with `RTLD_DEEPBIND`, or through `dlsym`. So there is
//! nothing to allocate, to look up, to free, or to go stale; a mutex needs no initialisation by us,
//! and its initialisation and destruction are not even exported.
//!
//! | `lock=` | mutexes |
//! | --- | --- |
//! | `manx` | [`manx::lock::bounded`] with a window of a millisecond |
//! | `adaptive` | the same without a bound: a free mutex goes to the thread that comes first |
//! | `asl` | as `manx`, but threads on little CPUs stand by first ([`asl`]) |
//! | `fifo` | in the order of arrival ([`fifo`]) |
//! | `glibc` | the C library's |
//!
//! Whatever they are, threads of little CPUs can be made to take longer for what they do between
//! calls ([`dilate`](crate::dilate)).
//!
//! C11's `mtx_t` and `cnd_t` are the same objects by other names (`c11.rs`).
//!
//! Condition variables are kept differently by the C library and by us; [`foreign`] does what can
//! be done where both are used.
//!
//! Invariants:
//! 1. Whatever the mode: `word` says which thread holds a mutex, in the C library's protocol (or an
//!    hand-off says it, which any of our waiters may take). So calls that were made before the mode
//!    was known, and calls that never come here, exclude ours and are excluded by them.
//! 2. Nothing here allocates, takes a lock, or writes anything but the program's object, the
//!    thread's block, the table of reserved spin locks, and, if statistics were asked for, the live
//!    file. `errno` stays as it is.
//! 3. Only the functions that wait for a condition unwind, when the thread is cancelled; and these
//!    hold the mutex again by then.

pub mod asl;
mod c11;
mod cancel;
mod cond;
#[cfg(not(test))]
pub mod exports;
pub mod fifo;
pub mod foreign;
pub mod mode;
pub mod mutex;
pub mod object;
pub mod real;
pub mod statistics;
