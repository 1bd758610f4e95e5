//! Finds busy-wait loops in machine code, and room beside them for a jump.
//!
//! A thread that spins on memory until another thread writes it burns its time slice when that other
//! thread cannot run. In a program that cannot be changed such a loop is still easy to tell: it holds a
//! PAUSE, it is short, and it decides by what it re-reads from memory. This crate finds these loops in the
//! bytes of a module, says of every other PAUSE why it is left alone, and finds a way for a two-byte jump
//! in the place of PAUSE to get to somewhere else without moving any instruction.
//!
//! | file | mechanism |
//! | --- | --- |
//! | [`finder`](Finder) | the whole question, asked of one module |
//! | [`image`], `text` | bytes by address, and which of them are code |
//! | `unwind` | where functions begin and end |
//! | `x86`, [`aarch64`] | instructions, reduced to their control flow (`instruction`) and data flow (`effect`) |
//! | `function`, `graph`, `dominators` | a function from its parts, its basic blocks, and who dominates whom |
//! | `rounds` | the innermost loop around a PAUSE, and its short rounds without calls |
//! | `exits` | what the loop's exits depend on: memory, a counter, the time |
//! | [`verdict`](Finding) | what is said of a PAUSE |
//! | `references`, `dead` | padding that never runs |
//! | `route`, [`jump`] | the way for a jump through dead bytes, and its encodings |
//! | [`syscalls`] | does a module set signal masks itself? |
//!
//! Two kinds of mistake are far apart. A wrong *verdict* costs time: at a PAUSE any delay is allowed. A wrong
//! *boundary* (bytes that are not an instruction of their own, bytes that are not dead) costs the program. So
//! verdicts weigh, and boundaries are proven or refused.
//!
//! The crate is pure: bytes in, findings out. No system calls, no global state, no panic on any input. It
//! runs inside programs that are not ours (the preload library) and on files (`manx run --dry-run`).
//!
//! ```
//! use spinloop::{Finder, Finding, Machine, Module, Reason, Segments};
//!
//! // pause; cmp byte [rdi], 0; jne back; ret
//! let code = b"\xf3\x90\x80\x3f\x00\x75\xf9\xc3";
//! let image = Segments(&[(0x1000, code)]);
//! assert_eq!(spinloop::candidates(code).collect::<Vec<_>>(), [0]);
//! let mut finder = Finder::new(Module::new(Machine::X86_64, &image, &[0x1000..0x1008], None));
//! assert_eq!(finder.analyse(0x1000), Finding::Leave(Reason::NoFunction));
//! ```

#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod aarch64;
mod copy;
mod dead;
mod dominators;
mod effect;
mod exits;
mod finder;
mod function;
mod graph;
pub mod image;
mod instruction;
pub mod jump;
mod references;
mod rounds;
mod route;
pub mod syscalls;
mod text;
mod unwind;
mod verdict;
mod x86;

pub use copy::{COPY_BYTES_MAX, Copy, Hooks, copy};
pub use finder::{Finder, Machine, Module};
pub use image::{Image, Segments};
pub use jump::{MAX_HOPS, Route, near_jump, short_jump};
pub use syscalls::resembles_raw_signal_syscall;
pub use verdict::{Finding, Loop, Reason};

/// Offsets in `chunk` at which the two bytes of a PAUSE stand, in ascending order.
///
/// They may as well be the inside of another instruction: [`Finder::analyse`] tells.
///
/// ```
/// assert_eq!(spinloop::candidates(b"\x90\xf3\x90\xf3\x90").collect::<Vec<_>>(), [1, 3]);
/// ```
pub fn candidates(chunk: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr::memmem::find_iter(chunk, &[0xf3, 0x90])
}
