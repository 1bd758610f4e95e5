//! The whole question: a module, and what to say of each PAUSE in it.
//!
//! Work is done only where a candidate is: the unwind table is searched, one function is decoded as far as the
//! candidate (most are inside another instruction, and end here), then the function's graph is built, and kept
//! for the next candidate. Room for jumps is looked for only when it is asked for.

use crate::dead::Dead;
use crate::exits;
use crate::function::{Function, Source};
use crate::graph::index_of;
use crate::image::Image;
use crate::instruction::Instruction;
use crate::jump::Route;
use crate::rounds;
use crate::route;
use crate::text::Text;
use crate::unwind::Unwind;
use crate::verdict::{Finding, Loop, Reason};
use alloc::vec::Vec;
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
    machine: Machine,
    image: &'a dyn Image,
    text: &'a [Range<u64>],
    unwind: Option<Unwind<'a>>,
}

impl<'a> Module<'a> {
    /// `text` are the executable ranges; `eh_frame_hdr` is the address of the segment `PT_GNU_EH_FRAME` (the
    /// section `.eh_frame_hdr`). Without it, or when it is not as the linkers write it, every finding is
    /// [`Reason::NoFunction`].
    ///
    /// The image should be what the program has in memory. In a file that is not relocated yet, tables of
    /// absolute addresses are empty, and [`Finder::route`] may then find more room than there is: good for a
    /// forecast, not for writing.
    pub fn new(
        machine: Machine,
        image: &'a dyn Image,
        text: &'a [Range<u64>],
        eh_frame_hdr: Option<u64>,
    ) -> Self {
        let unwind = eh_frame_hdr.and_then(|header| Unwind::new(image, header));
        Module { machine, image, text, unwind }
    }

    fn source(&self) -> Option<Source<'a>> {
        let (machine, image, text) = (self.machine, self.image, Text(self.text));
        Some(Source { machine, image, text, unwind: self.unwind? })
    }
}

/// Analyses the candidates of one module, and remembers which dead bytes have been given away.
///
/// The module's code must be as the compiler left it while it is analysed: ask for all findings and routes
/// before anything is written.
pub struct Finder<'a> {
    source: Option<Source<'a>>,
    /// The part of the function that was decoded last, and the function if its graph was built.
    part: Option<(Range<u64>, Option<Vec<Instruction>>)>,
    function: Option<Function>,
    dead: Option<Dead<'a>>,
    taken: Vec<Range<u64>>,
}

impl<'a> Finder<'a> {
    /// A finder that has given nothing away.
    pub fn new(module: Module<'a>) -> Self {
        let source = module.source();
        let dead = source.filter(|source| source.machine == Machine::X86_64).map(Dead::new);
        Finder { source, part: None, function: None, dead, taken: Vec::new() }
    }

    /// Analyses the candidate at `address`. Cheapest in ascending order of addresses: the function that was
    /// decoded last is kept.
    pub fn analyse(&mut self, address: u64) -> Finding {
        match self.wait_loop(address) {
            Ok(Some(found)) => Finding::Wait(found),
            Ok(None) => Finding::NotAnInstruction,
            Err(reason) => Finding::Leave(reason),
        }
    }

    /// The loop at `address`; none if no instruction stands there.
    fn wait_loop(&mut self, address: u64) -> Result<Option<Loop>, Reason> {
        let source = self.source.ok_or(Reason::NoFunction)?;
        if !self.part.as_ref().is_some_and(|(part, _)| part.contains(&address)) {
            let part = source.part(address)?;
            let instructions = source.decode(&part);
            self.part = Some((part, instructions));
        }
        let Some((part, Some(instructions))) = &self.part else { return Err(Reason::Undecodable) };
        if !index_of(instructions, address).is_some_and(|n| instructions[n].spin) {
            return Ok(None);
        }
        let known = self.function.as_ref().is_some_and(|function| function.parts.contains(part));
        if !known {
            self.function = source.function(part.clone(), instructions.clone());
        }
        let function = self.function.as_ref().ok_or(Reason::Undecodable)?;
        let (instructions, graph) = (&function.instructions, &function.graph);
        let pause = index_of(instructions, address).ok_or(Reason::Undecodable)?;
        let home = graph.block_of(pause).ok_or(Reason::Undecodable)?;
        let region = rounds::region(graph, &function.dominators, home)?;
        exits::judge(source.machine, source.image, instructions, graph, &region, pause as u32)?;
        let block = |n: u32| &graph.blocks[n as usize];
        let instruction = |n: u32| &instructions[n as usize];
        Ok(Some(Loop {
            head: instruction(block(region.head).instructions.start).address,
            latch: instruction(block(region.latch).instructions.end - 1).address,
            bytes: region.blocks.iter().map(|&n| block(n).bytes).sum(),
            parts: merged(region.blocks.iter().map(|&n| {
                let own = &block(n).instructions;
                instruction(own.start).address..instruction(own.end - 1).end()
            })),
            function: part.clone(),
        }))
    }

    /// Room for a jump in the place of the PAUSE at `pause`, which should have been found to wait: short jumps
    /// through dead bytes that end in five dead bytes. What is returned is reserved and never returned again.
    ///
    /// None on aarch64, where every instruction has room for a branch.
    pub fn route(&mut self, pause: u64) -> Option<Route> {
        let dead = self.dead.as_mut()?;
        let window = pause.saturating_sub(route::REACH)..pause.saturating_add(route::REACH);
        let runs = dead.runs(pause, &window);
        route::find(pause, &runs, &mut self.taken)
    }
}

/// Ascending ranges, with those that touch made one.
fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}
