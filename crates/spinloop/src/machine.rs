//! Which processor's instructions a module holds, and the decoder of each.

use crate::instruction::{Effect, Instruction};
use crate::{aarch64, x86};
use alloc::vec::Vec;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64: PAUSE.
    X86_64,
    /// aarch64: YIELD and ISB.
    Aarch64,
}

impl Machine {
    /// All instructions in `bytes`. `None` if any of them is invalid: then the function holds data,
    /// or `bytes` do not begin at an instruction.
    pub(crate) fn decode(self, bytes: &[u8], address: u64) -> Option<Vec<Instruction>> {
        match self {
            Machine::X86_64 => x86::decode(bytes, address),
            Machine::Aarch64 => aarch64::decode(bytes, address),
        }
    }

    /// The effect of the instruction at the start of `bytes`.
    pub(crate) fn effect(self, bytes: &[u8], address: u64) -> Effect {
        match self {
            Machine::X86_64 => x86::effect(bytes, address),
            Machine::Aarch64 => aarch64::effect(bytes, address),
        }
    }
}
