//! What the analysis reads: a module's bytes, and where its functions begin and end.

use crate::image::{Image, Text};
use crate::instruction::Instruction;
use crate::machine::Machine;
use crate::unwind::Unwind;
use crate::verdict::Reason;
use alloc::vec::Vec;
use core::ops::Range;

/// The largest function, all of its parts together.
pub(crate) const BYTES_MAX: u64 = 1 << 20;

/// What a function is put together from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) machine: Machine,
    pub(crate) image: &'a dyn Image,
    pub(crate) text: Text<'a>,
    pub(crate) unwind: Unwind<'a>,
}

impl<'a> Source<'a> {
    /// The part that holds `address`, if all of it is code and of a reasonable size.
    pub(crate) fn part(&self, address: u64) -> Result<Range<u64>, Reason> {
        let range = self.unwind.function(address).filter(|range| self.text.holds(range));
        let range = range.ok_or(Reason::NoFunction)?;
        if range.end - range.start > BYTES_MAX { Err(Reason::Undecodable) } else { Ok(range) }
    }

    /// The bytes of a range, all of them.
    pub(crate) fn bytes(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        self.image.at(range.start).get(..usize::try_from(range.end.checked_sub(range.start)?).ok()?)
    }

    pub(crate) fn decode(&self, range: &Range<u64>) -> Option<Vec<Instruction>> {
        self.machine.decode(self.bytes(range)?, range.start)
    }
}
