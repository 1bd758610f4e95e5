//! The guard: finds the busy-wait loops of the program and its libraries, and repairs them.
//!
//! It wakes when the program creates its first thread (before that no thread can wait for another),
//! and looks again when the loader tells it that libraries have come or gone. A thread that comes
//! to a repaired loop goes on in a copy of the loop (`spinloop::copy`), in which every round may be
//! a call of [`visit`] through the [`trampoline`]; it gets there by a jump.
//!
//! | file | its part |
//! | --- | --- |
//! | [`wake`](mod@wake) | when to search |
//! | [`rendezvous`] | where the loader tells that libraries come and go |
//! | [`search`], [`module_file`] | which modules are new, which are gone, which loops wait |
//! | [`analysis`], [`plan`] | what is to become of each loop of a module, whatever the process |
//! | [`cache`] | these plans, kept for the next start |
//! | [`repair`] | writes a module's copies and jumps |
//! | [`text`], [`code_space`], [`trampoline`], [`registers`] | writing code, room for copies of loops, and the way from them to us |
//! | [`stopped`] | where in a module the calling thread goes on later |
//! | [`mappings`] | what is mapped in the process |
//! | [`frames`] | how unwinders find their way out of copies |
//! | [`perf_map`] | names of copies, for `perf` |
//! | [`site`](crate::site), [`visit`] | what is known of a site, and one round of waiting at it |
//!
//! Lock order: the loader's lock of `dlopen`, the guard's latch, the loader's lock of
//! `dl_iterate_phdr`. The loader holds the first at a rendezvous, and while it runs constructors,
//! which may create threads.

pub mod analysis;
pub mod cache;
pub mod code_space;
pub mod frames;
pub mod mappings;
pub mod module_file;
pub mod perf_map;
pub mod plan;
pub mod registers;
pub mod rendezvous;
pub mod repair;
pub mod search;
pub mod stopped;
pub mod text;
pub mod trampoline;
pub mod visit;
pub mod wake;

pub use wake::{hold, look_again, release, wake};
