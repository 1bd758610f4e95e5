//! libmanx_preload.so: adaptive waiting for programs that cannot be changed.
//!
//! Loaded into a program that knows nothing of it, the library finds the loops in which the
//! program's threads wait busily for each other, and lets them wait adaptively instead. Whatever it
//! cannot improve it leaves as it was.
//!
//! Rules that every file here keeps:
//! 1. Every exported function works before this library's constructor has run, since other
//!    libraries' constructors run first.
//! 2. Nothing is written to standard output or standard error unless it was asked for.
//! 3. No standard thread, lock or thread-local variable, and no `malloc`: see [`latch`], [`thread`]
//!    and [`arena`]. `std` is linked for its unwinder only.
//! 4. What is exported has its name in `exports.txt`, and nothing else is.
//!
//! | file | its part |
//! | --- | --- |
//! | [`entry`] | start, end, fork |
//! | [`selection`] | which programs, modules and loops are meant at all |
//! | [`exports`] | the functions of the C library that the program calls through us |
//! | [`guard`], [`site`] | finding and repairing busy-wait loops; what is known of one |
//! | [`lock`], [`spin_lock`], [`dilate`] | the program's mutexes and condition variables; its spin locks; slowed threads |
//! | [`yields`], [`yield_history`] | loops of `sched_yield` |
//! | [`cpus`] | the number of CPUs that is reported to the program |
//! | [`slo`] | the program's latency targets |
//! | [`statistics`] | the live file and the report |
//! | [`elf`], [`holder`] | modules and symbols; the module that holds an address |
//! | [`real`] | the C library's functions behind ours |
//! | [`shortage`] | whether CPUs are short |
//! | [`trial`] | whether what is done then helps |
//! | [`settings`], [`process`], [`thread`], [`latch`], [`arena`], [`scratch`], [`stack`], [`compat`], `unwind` | what the others stand on |

extern crate alloc;

pub mod arena;
#[cfg(not(test))]
mod caller;
#[cfg(not(test))]
pub mod compat;
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod cpus;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod dilate;
pub mod elf;
#[cfg(not(test))]
pub mod entry;
#[cfg(not(test))]
pub mod exports;
pub mod guard;
pub mod holder;
pub mod latch;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod lock;
pub mod process;
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod real;
pub mod scratch;
#[cfg_attr(test, allow(dead_code, reason = "called by `entry`, which a test's own binary must not have"))]
pub mod selection;
pub mod settings;
pub mod shortage;
pub mod site;
pub mod slo;
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod spin_lock;
pub mod stack;
pub mod statistics;
pub mod thread;
pub mod trial;
#[cfg(not(test))]
mod unwind;
pub mod yield_history;
#[cfg_attr(test, allow(dead_code, reason = "called by the exports, which a test's own binary must not have"))]
pub mod yields;

/// The library's memory.
#[cfg(not(test))]
#[global_allocator]
pub static ARENA: arena::Arena = arena::Arena::new();
