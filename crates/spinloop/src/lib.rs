//! Finds busy-wait loops in machine code, and a place in them for a jump.
//!
//! A thread that spins on memory until another thread writes it wastes its time slice when that
//! other thread cannot run. Such a loop can be recognised in a program that cannot be changed: **a
//! loop waits if a round of it changes nothing that lasts, except a counter or its reading of a
//! clock.** What ends it must come from another thread. A PAUSE in the loop is a hint, not the
//! definition. This crate finds these loops in the bytes of a module, says how each ends, and finds
//! a place for a jump. Nothing jumps between the bytes that the jump replaces.
//!
//! | file | mechanism |
//! | --- | --- |
//! | [`seeds`](seeds()) | byte patterns that are cheap to find, where a loop may be |
//! | [`finder`](Finder) | the analysis of one module |
//! | [`image`] | bytes by address, and which of them are code |
//! | `unwind` | where functions begin and end |
//! | `source` | what the analysis reads |
//! | [`machine`](Machine) | the instruction set of a module, and its decoder |
//! | `x86`, [`aarch64`] | instructions, reduced to their control flow and data flow (`instruction`) |
//! | `function`, `graph`, `dominators` | a function from its parts, its basic blocks, and which block dominates which |
//! | `rounds` | the innermost loop around a seed, and its short rounds without calls |
//! | `each_round` | the code that each round of a wait runs, its calls included |
//! | `short` | a cheap look at a short loop, before its function is decoded |
//! | `exits` | what the loop's exits depend on: memory, a counter, the time |
//! | `proof` | what lasts from round to round |
//! | `symbolic` | symbolic execution: a value is known by the place that it came from |
//! | `frame` | the function's stack frame, and whether others can reach it |
//! | [`counter`](Counter) | a counter that bounds a wait, and how to move it on |
//! | `blocking` | whether an exit leads to something that blocks for the same wait |
//! | [`verdict`](Finding) | the result for a seed |
//! | `references`, `dead` | padding that never runs |
//! | `far_jumps` | where the long jumps of a module lead |
//! | [`jump_site`](JumpSite) | the place for a jump into a copy |
//! | [`route`] | the path of a short jump through dead bytes, and encodings |
//! | [`copy`](copy()) | the loop's copy, in which each round may be a visit to the waiter |
//! | [`relocation`] | how a copy is moved to other addresses |
//! | [`poll`](is_polling) | functions by which threads poll |
//! | [`call_frame`](CallFrame) | the copy's unwind data |
//!
//! Three kinds of mistakes have very different costs. A wrong *verdict* behind a PAUSE costs time:
//! any delay is allowed there. A wrong *proof* would end a wait that must not end. A wrong
//! *boundary* (bytes that are not an instruction of their own, bytes that are not dead) breaks the
//! program. So a verdict may be an estimate. Proofs and boundaries are certain, or refused.
//!
//! The crate is pure: it takes bytes and returns findings. It makes no system calls, has no global
//! state, and panics on no input. The preload library runs it inside other programs, and `manx run
//! --dry-run` runs it on files.
//!
//! ```
//! use spinloop::{Finder, Finding, Machine, Module, Reason, Seed, Segments};
//!
//! // pause; cmp byte [rdi], 0; jne back; ret
//! let code = b"\xf3\x90\x80\x3f\x00\x75\xf9\xc3";
//! let image = Segments(&[(0x1000, code)]);
//! assert_eq!(spinloop::seeds(code), [(0, Seed::Pause)]);
//! let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &[0x1000..0x1008], None));
//! assert_eq!(finder.analyse(0x1000, Seed::Pause), Finding::Leave(Reason::NoFunction));
//! ```

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod aarch64;
mod blocking;
mod call_frame;
mod calls;
mod copy;
mod counter;
mod dead;
mod dominators;
mod each_round;
mod exits;
mod far_jumps;
mod finder;
mod frame;
mod function;
mod graph;
pub mod image;
mod instruction;
mod jump_site;
mod machine;
mod poll;
mod proof;
mod references;
pub mod relocation;
mod rounds;
pub mod route;
mod seeds;
mod short;
mod source;
mod symbolic;
mod unwind;
mod verdict;
mod x86;

pub use blocking::{Blocks, blocking};
pub use call_frame::{CALL_FRAME_BYTES_MAX, CallFrame};
pub use copy::{COPY_BYTES_MAX, Copy, Original, copy};
pub use counter::{Bound, Condition, Counter, Place};
pub use finder::{Finder, Module};
pub use image::{Image, Segments};
pub use jump_site::{Jump, JumpSite};
pub use machine::Machine;
pub use poll::is_polling;
pub use relocation::Hooks;
pub use route::{ENDBR64, MAX_HOPS, Route, near_jump, padding, short_jump};
pub use seeds::{NESTED_BYTES_MAX, OVERLAP, SHORT_BYTES_MAX, Seed, seeds};
pub use verdict::{Finding, Kind, Loop, Reason};
