//! The place and the control flow of an instruction of either machine.

use crate::image::Image;
use alloc::vec::Vec;
use core::ops::{BitAnd, BitOr, BitOrAssign, Not};

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
    /// Its bytes; fewer if the image ends before.
    pub(crate) fn bytes<'a>(&self, image: &'a dyn Image) -> &'a [u8] {
        let bytes = image.at(self.address);
        bytes.get(..usize::from(self.length)).unwrap_or(bytes)
    }

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

/// A set of registers, one bit each. Flags are registers too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers(pub(crate) u128);

impl Registers {
    pub(crate) const NONE: Registers = Registers(0);
    /// The carry flag, apart because `inc` and `dec` keep it.
    pub(crate) const CARRY: Registers = Registers(1 << 120);
    /// All other flags.
    pub(crate) const FLAGS: Registers = Registers(1 << 121);

    pub(crate) const fn one(number: u32) -> Registers {
        Registers(1 << (number & 127))
    }

    pub(crate) fn intersects(self, other: Registers) -> bool {
        self.0 & other.0 != 0
    }

    /// The sets of one register each that make up this one.
    pub(crate) fn each(self) -> impl Iterator<Item = Registers> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            (bit != 0).then_some(Registers(bit))
        })
    }
}

impl BitOr for Registers {
    type Output = Registers;
    fn bitor(self, other: Registers) -> Registers {
        Registers(self.0 | other.0)
    }
}

impl BitOrAssign for Registers {
    fn bitor_assign(&mut self, other: Registers) {
        self.0 |= other.0;
    }
}

impl BitAnd for Registers {
    type Output = Registers;
    fn bitand(self, other: Registers) -> Registers {
        Registers(self.0 & other.0)
    }
}

impl Not for Registers {
    type Output = Registers;
    fn not(self) -> Registers {
        Registers(!self.0)
    }
}

/// An address as the instruction writes it: the same registers, scale and displacement name the
/// same memory as long as none of the registers changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The registers that form the address. The stack pointer is not among them: a loop without
    /// calls does not move it where it matters.
    pub(crate) registers: Registers,
    /// Base, index, scale, and segment, as numbers that are equal when they are.
    pub(crate) form: u64,
    /// The displacement, or the whole address of a place relative to the instruction.
    pub(crate) displacement: u64,
    /// Relative to the stack or frame pointer: a variable of the function, as unoptimised code
    /// keeps them.
    pub(crate) local: bool,
}

/// Data flow through one instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effect {
    /// Registers whose values the results depend on; not those that only form an address.
    pub(crate) reads: Registers,
    /// Registers that are written.
    pub(crate) writes: Registers,
    /// Memory whose values the results depend on.
    pub(crate) loads: Vec<Place>,
    /// Memory that is written.
    pub(crate) stores: Vec<Place>,
    /// Results are computed as a counter's are: sums, differences, products, shifts.
    pub(crate) arithmetic: bool,
    /// Results depend on the time.
    pub(crate) clock: bool,
    /// Reads and writes memory in one step. Programs do that only to memory that other threads
    /// write.
    pub(crate) atomic: bool,
}
