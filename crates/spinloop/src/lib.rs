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
//! | [`image`] | bytes by address |
//! | [`candidates`](candidates()) | where `F3 90` stands |
//!
//! The crate is pure: bytes in, findings out. No system calls, no global state, no panic on any input. It
//! runs inside programs that are not ours (the preload library) and on files (`manx run --dry-run`).

#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod finder;
pub mod image;
pub mod jump;
pub mod syscalls;
mod verdict;

pub use finder::{Finder, Machine, Module};
pub use image::{Image, Segments};
pub use jump::{MAX_HOPS, Route, near_jump, short_jump};
pub use syscalls::resembles_raw_signal_syscall;
pub use verdict::{Finding, Loop, Reason};

/// Offsets in `chunk` at which the two bytes of a PAUSE stand, in ascending order.
///
/// They may as well be the inside of another instruction: [`Finder::analyse`] tells.
pub fn candidates(chunk: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr::memmem::find_iter(chunk, &[0xf3, 0x90])
}
