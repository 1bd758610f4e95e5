//! What the control flow needs to know of an instruction, of either machine.

use crate::{Machine, aarch64, x86};
use alloc::vec::Vec;

/// Where execution goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Behind the instruction.
    Next,
    /// Behind the instruction or at an address.
    Branch(u64),
    /// At an address.
    Jump(u64),
    /// At an address that is not known here.
    Indirect,
    /// Behind the instruction, but other code ran in between: calls, system calls, breakpoints.
    Call,
    /// Nowhere in this function: returns, undefined instructions.
    Stop,
}

/// An instruction's place and flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) address: u64,
    pub(crate) length: u8,
    /// A hint to the processor that this is a busy-wait loop: PAUSE, YIELD, ISB.
    pub(crate) spin: bool,
    /// Does nothing, as padding does.
    pub(crate) idle: bool,
    pub(crate) flow: Flow,
}

impl Instruction {
    /// The address behind it.
    pub(crate) fn end(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.length))
    }

    /// The address that it names as a place to go to.
    pub(crate) fn target(&self) -> Option<u64> {
        match self.flow {
            Flow::Branch(target) | Flow::Jump(target) => Some(target),
            Flow::Next | Flow::Indirect | Flow::Call | Flow::Stop => None,
        }
    }
}

/// All instructions in `bytes`, or none at all when something in there is not one: then either the
/// function holds data, or the decoder is not where it believes to be.
pub(crate) fn decode(machine: Machine, bytes: &[u8], address: u64) -> Option<Vec<Instruction>> {
    match machine {
        Machine::X86_64 => x86::decode(bytes, address),
        Machine::Aarch64 => aarch64::decode(bytes, address),
    }
}
