//! The function around a PAUSE, put together from its parts.
//!
//! Compilers move rare code to a part of its own, far away, with unwind information of its own. A
//! loop may run through both parts. The jumps between two ranges show whether they are parts of one
//! function. A function is entered at its start, so a direct jump to the *inside* of another range
//! means that both are one function. A rare part is entered at its start too, but it jumps back to
//! the inside of a part that is known. A landing pad of an exception always belongs to the
//! function.
//!
//! 1. Every part was decoded from its start without a flaw, and parts do not overlap.
//! 2. Where a function is [`whole`](Function::whole), every place outside that one of its parts
//!    leads to was looked at, and jumps back to none of them: it is another function.

use crate::dominators::Dominators;
use crate::graph::Graph;
use crate::instruction::{Flow, Instruction};
use crate::machine::Machine;
use crate::references::References;
use crate::source::{BYTES_MAX, Source};
use crate::verdict::Reason;
use crate::x86;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

const PARTS_MAX: usize = 8;
/// How many places that jumps lead to are looked at for being a part, and their size.
const TRIES_MAX: usize = 32;
const TRY_BYTES_MAX: u64 = 1 << 16;

/// A function with its control flow.
pub(crate) struct Function {
    /// In ascending order.
    pub(crate) parts: Vec<Range<u64>>,
    /// Of all parts, in ascending order.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) graph: Graph,
    pub(crate) dominators: Dominators,
    /// No part is missing, by Invariant 2.
    pub(crate) whole: bool,
}

impl Function {
    /// The addresses of a block.
    pub(crate) fn block_range(&self, block: u32) -> Range<u64> {
        let own = &self.graph.blocks[block as usize].instructions;
        self.instructions[own.start as usize].address..self.instructions[own.end as usize - 1].end()
    }
}

impl Source<'_> {
    /// The function that `part` is a part of; `instructions` are those of this part.
    pub(crate) fn function(&self, part: Range<u64>, instructions: Vec<Instruction>) -> Option<Function> {
        let mut parts = Vec::from([(part, instructions)]);
        // Other functions, by their starts.
        let mut others = BTreeSet::new();
        let mut whole = true;
        let mut looked_at = 0;
        'parts: while let Some((part, instructions)) = parts.get(looked_at) {
            looked_at += 1;
            let exits = self.exits(part, instructions);
            whole &= exits.is_complete;
            for (target, way) in exits.places {
                if parts.iter().any(|(part, _)| part.contains(&target)) {
                    continue;
                }
                // A place without unwind information, and the stub of an imported function, is
                // another function.
                let is_x86 = self.machine == Machine::X86_64;
                if is_x86 && x86::stub(self.image.at(target), target).is_some() {
                    continue;
                }
                let other = match self.part(target) {
                    Ok(other) => other,
                    Err(Reason::NoFunction) => continue,
                    Err(_) => {
                        whole = false;
                        continue;
                    }
                };
                let is_sure = match way {
                    Way::Jump => target != other.start,
                    Way::Table => false,
                    Way::LandingPad => true,
                };
                if !is_sure && others.contains(&other.start) {
                    continue;
                }
                let total: u64 = parts.iter().map(|(part, _)| part.end - part.start).sum();
                let size = other.end - other.start;
                let fits = parts.len() < PARTS_MAX
                    && total + size <= BYTES_MAX
                    && (is_sure || others.len() < TRIES_MAX && size <= TRY_BYTES_MAX)
                    && !parts.iter().any(|(part, _)| overlap(part, &other));
                let decoded = if fits { self.decode(&other) } else { None };
                let Some(instructions) = decoded else {
                    whole = false;
                    continue;
                };
                let is_inside = |&target: &u64| {
                    parts.iter().any(|(part, _)| part.contains(&target) && target != part.start)
                };
                let returns = || self.exits(&other, &instructions).places.iter().any(|(to, _)| is_inside(to));
                if is_sure || returns() {
                    parts.push((other, instructions));
                    // What came back to none of the parts may come back to this one.
                    others.clear();
                    looked_at = 0;
                    continue 'parts;
                } else {
                    others.insert(other.start);
                }
            }
        }
        parts.sort_by_key(|(part, _)| part.start);
        let (parts, instructions): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let instructions = instructions.concat();
        let graph = Graph::new(&instructions, &parts, self.image)?;
        let dominators = Dominators::new(&graph);
        Some(Function { parts, instructions, graph, dominators, whole })
    }

    /// Where a part leads: by its jumps, its jump tables, and its exceptions.
    fn exits(&self, part: &Range<u64>, instructions: &[Instruction]) -> Exits {
        let jumps = instructions.iter().filter_map(Instruction::target);
        let mut places: BTreeSet<(u64, Way)> =
            jumps.filter(|target| !part.contains(target)).map(|target| (target, Way::Jump)).collect();
        let mut is_complete = true;
        match self.unwind.landing_pads(part.start) {
            Some(pads) => places.extend(pads.into_iter().map(|pad| (pad, Way::LandingPad))),
            None => is_complete = false,
        }
        if self.machine == Machine::X86_64 && instructions.iter().any(|one| one.flow == Flow::Indirect) {
            match References::new(self, part) {
                Some(references) => {
                    is_complete &= !references.unknown;
                    places.extend(references.jumps.into_iter().map(|target| (target, Way::Table)));
                }
                None => is_complete = false,
            }
        }
        Exits { places, is_complete }
    }
}

/// Where a part leads.
struct Exits {
    places: BTreeSet<(u64, Way)>,
    /// These are all.
    is_complete: bool,
}

/// How a thread comes to a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Jump,
    /// By a jump table. Its end is not known, so that the place may be none.
    Table,
    /// By an exception.
    LandingPad,
}

pub(crate) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
