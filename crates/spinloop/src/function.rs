//! The function around a PAUSE, put together from its parts.
//!
//! Compilers move rare code to a part of its own, far away, with unwind information of its own. A
//! loop may run through both parts. The jumps between two ranges show whether they are parts of one
//! function. A function is entered at its start, so a direct jump to the *inside* of another range
//! means that both are one function. A rare part is entered at its start too, by a conditional
//! jump, but it jumps back to the inside of the part that it was entered from.
//!
//! 1. Every part was decoded from its start without a flaw, and parts do not overlap.

use crate::dominators::Dominators;
use crate::graph::Graph;
use crate::image::{Image, Text};
use crate::instruction::{Flow, Instruction};
use crate::machine::Machine;
use crate::unwind::Unwind;
use crate::verdict::Reason;
use alloc::vec::Vec;
use core::ops::Range;

/// All parts of a function together.
const BYTES_MAX: u64 = 1 << 20;
const PARTS_MAX: usize = 8;
/// How many places that conditional jumps lead to are looked at for being a part, and their size.
const TRIES_MAX: usize = 16;
const TRY_BYTES_MAX: u64 = 1 << 16;

/// A function with its control flow.
pub(crate) struct Function {
    /// In ascending order.
    pub(crate) parts: Vec<Range<u64>>,
    /// Of all parts, in ascending order.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) graph: Graph,
    pub(crate) dominators: Dominators,
}

impl Function {
    /// The addresses of a block.
    pub(crate) fn block_range(&self, block: u32) -> Range<u64> {
        let own = &self.graph.blocks[block as usize].instructions;
        self.instructions[own.start as usize].address..self.instructions[own.end as usize - 1].end()
    }
}

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

    /// The function that `part` is a part of; `instructions` are those of this part.
    pub(crate) fn function(&self, part: Range<u64>, instructions: Vec<Instruction>) -> Option<Function> {
        let mut parts = Vec::from([(part, instructions)]);
        let mut tries = 0;
        let mut looked_at = 0;
        while let Some((_, instructions)) = parts.get(looked_at) {
            looked_at += 1;
            let jumps: Vec<Flow> = instructions
                .iter()
                .map(|one| one.flow)
                .filter(|flow| matches!(flow, Flow::Branch(_) | Flow::Jump(_)))
                .collect();
            for jump in jumps {
                let (Flow::Branch(target) | Flow::Jump(target)) = jump else { continue };
                if parts.len() >= PARTS_MAX || parts.iter().any(|(part, _)| part.contains(&target)) {
                    continue;
                }
                let Ok(other) = self.part(target) else { continue };
                let total: u64 = parts.iter().map(|(part, _)| part.end - part.start).sum();
                let size = other.end - other.start;
                if total + size > BYTES_MAX || parts.iter().any(|(part, _)| overlap(part, &other)) {
                    continue;
                }
                let at_start = target == other.start;
                if at_start {
                    let conditional = matches!(jump, Flow::Branch(_));
                    if !conditional || tries >= TRIES_MAX || size > TRY_BYTES_MAX {
                        continue;
                    }
                    tries += 1;
                }
                let Some(instructions) = self.decode(&other) else { continue };
                let returns = instructions.iter().filter_map(Instruction::target).any(|target| {
                    parts.iter().any(|(part, _)| part.contains(&target) && target != part.start)
                });
                if !at_start || returns {
                    parts.push((other, instructions));
                }
            }
        }
        parts.sort_by_key(|(part, _)| part.start);
        let (parts, instructions): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let instructions = instructions.concat();
        let graph = Graph::new(&instructions, &parts, self.image)?;
        let dominators = Dominators::new(&graph);
        Some(Function { parts, instructions, graph, dominators })
    }
}

pub(crate) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
