//! Encodings of jumps, and the route from a short jump to a landing.
//!
//! A `jmp rel8` (`EB`) is two bytes and reaches 128 bytes to either side. A landing is the five
//! bytes of a `jmp rel32` (`E9`), which reaches anything within 2 GiB.

use crate::x86::decoder;
use iced_x86::{Instruction, Mnemonic};

/// `endbr64`, at which indirect calls and jumps have to arrive where the CPU checks that.
pub const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The most short jumps between the one at the pivot and the landing.
pub const MAX_HOPS: usize = 4;

/// The bytes of a `jmp rel8` at `from` to `to`, if it reaches.
///
/// ```
/// assert_eq!(spinloop::short_jump(0x1000, 0x1000), Some([0xeb, 0xfe]));
/// assert_eq!(spinloop::short_jump(0x1000, 0x1082), None);
/// ```
pub fn short_jump(from: u64, to: u64) -> Option<[u8; 2]> {
    let relative = to.wrapping_sub(from.wrapping_add(2)) as i64;
    Some([0xeb, i8::try_from(relative).ok()? as u8])
}

/// The bytes of a `jmp rel32` at `from` to `to`, if it reaches.
///
/// ```
/// assert_eq!(spinloop::near_jump(0x1000, 0x1005), Some([0xe9, 0, 0, 0, 0]));
/// assert_eq!(spinloop::near_jump(0x1000, 0x1_0000_0000), None);
/// ```
pub fn near_jump(from: u64, to: u64) -> Option<[u8; 5]> {
    let relative = to.wrapping_sub(from.wrapping_add(5)) as i64;
    let [a, b, c, d] = i32::try_from(relative).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// How many bytes of `code`, from its start, are whole NOPs and INT3, as assemblers fill what never
/// runs.
///
/// ```
/// // ret; nopw cs:0(rax, rax); mov eax, 1
/// let code = b"\xc3\x66\x2e\x0f\x1f\x84\0\0\0\0\0\xb8\x01\0\0\0";
/// assert_eq!(spinloop::padding(&code[1..]), 10);
/// assert_eq!(spinloop::padding(&code[1..6]), 0);
/// assert_eq!(spinloop::padding(&code[11..]), 0);
/// ```
pub fn padding(code: &[u8]) -> usize {
    let fills = |one: &Instruction| matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
    decoder(code, 0).into_iter().take_while(fills).map(|one| one.len()).sum()
}

/// A chain of short jumps from the pivot to room for a `jmp rel32`.
///
/// Write all of it before the short jump at the pivot, which leads into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub(crate) hops: [u64; MAX_HOPS],
    pub(crate) hop_count: usize,
    /// The address of the five bytes.
    pub landing: u64,
}

impl Route {
    /// The addresses of the short jumps between the pivot and the landing, in the order of
    /// execution; each has two bytes.
    pub fn hops(&self) -> &[u64] {
        self.hops.get(..self.hop_count).unwrap_or(&[])
    }

    /// Every short jump as `(from, to)`, in the order of execution: from `pivot` over the hops to
    /// the landing.
    pub fn short_jumps(
        &self,
        pivot: u64,
    ) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator + '_ {
        (0..self.hop_count + 1).map(move |n| {
            let from = if n == 0 { pivot } else { self.hops[n - 1] };
            let to = self.hops().get(n).copied().unwrap_or(self.landing);
            (from, to)
        })
    }
}
