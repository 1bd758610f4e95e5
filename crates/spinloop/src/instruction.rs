//! The place and the control flow of an instruction of either machine.

use crate::image::Image;

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
