//! A function's control flow: basic blocks and the edges between them.
//!
//! A call ends a block too, so that "a round without calls" is a matter of edges: the edge behind a
//! call is [`Block::after_call`].
//!
//! 1. Every jump from the function to the inside of the function leads to an instruction's first
//!    byte. A function in which one does not is refused: then its code was not decoded from where
//!    it begins. (One exception is old and deliberate: jumping over a LOCK prefix.)

use crate::image::Image;
use crate::instruction::{Flow, Instruction};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// There is no such edge.
    None,
    /// Out of the function.
    Out,
    /// To a block.
    To(u32),
}

/// Instructions that run one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Indices of its instructions.
    pub(crate) instructions: Range<u32>,
    pub(crate) bytes: u32,
    /// Where it goes on: straight on, and by its jump.
    pub(crate) edges: [Edge; 2],
    /// Other code runs before it goes on.
    pub(crate) after_call: bool,
}

impl Block {
    /// The blocks that may follow.
    pub(crate) fn successors(&self) -> impl Iterator<Item = u32> {
        self.edges.into_iter().filter_map(|edge| match edge {
            Edge::To(block) => Some(block),
            Edge::None | Edge::Out => None,
        })
    }
}

/// The blocks, in ascending order of addresses, and their predecessors.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) blocks: Vec<Block>,
    predecessors: Vec<u32>,
    predecessors_of: Vec<u32>,
}

/// The index of the instruction at `address`. `instructions` ascend.
pub(crate) fn index_of(instructions: &[Instruction], address: u64) -> Option<usize> {
    instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()
}

impl Graph {
    /// The graph of a function with these instructions, in ascending order, that lie in these
    /// parts.
    pub(crate) fn new(
        instructions: &[Instruction],
        parts: &[Range<u64>],
        image: &dyn Image,
    ) -> Option<Graph> {
        let inside = |address| parts.iter().any(|part| part.contains(&address));
        let find = |target| {
            index_of(instructions, target).or_else(|| {
                let at = index_of(instructions, target.wrapping_sub(1))?;
                (image.at(target.wrapping_sub(1)).first() == Some(&0xf0)).then_some(at)
            })
        };
        let mut leads = vec![false; instructions.len() + 1];
        leads[0] = true;
        // Where jumps to the inside lead, in their order: each is the last of a block.
        let mut targets: Vec<u32> = Vec::new();
        for (n, instruction) in instructions.iter().enumerate() {
            if let Some(target) = instruction.target()
                && inside(target)
            {
                let found = find(target)?;
                leads[found] = true;
                targets.push(found as u32);
            }
            let contiguous = instructions.get(n + 1).is_some_and(|next| next.address == instruction.end());
            leads[n + 1] |= instruction.flow != Flow::Next || !contiguous;
        }

        let mut starts: Vec<u32> = Vec::new();
        starts.extend((0u32..).zip(&leads).filter(|&(_, &leads)| leads).map(|(n, _)| n));
        let block_at = |instruction: u32| {
            starts.binary_search(&instruction).map_or(Edge::Out, |block| Edge::To(block as u32))
        };
        let mut targets = targets.into_iter();
        let mut blocks: Vec<Block> = Vec::with_capacity(starts.len());
        for pair in starts.windows(2) {
            let (first, behind) = (pair[0] as usize, pair[1] as usize);
            let last = &instructions[behind - 1];
            let contiguous = instructions.get(behind).is_some_and(|next| next.address == last.end());
            let straight = if contiguous { Edge::To(blocks.len() as u32 + 1) } else { Edge::Out };
            let jump = match last.target() {
                Some(target) if inside(target) => targets.next().map_or(Edge::Out, block_at),
                _ => Edge::Out,
            };
            let edges = match last.flow {
                Flow::Next | Flow::Call => [straight, Edge::None],
                Flow::Branch(_) => [straight, jump],
                Flow::Jump(_) => [jump, Edge::None],
                Flow::Indirect | Flow::Stop => [Edge::Out, Edge::None],
            };
            blocks.push(Block {
                instructions: pair[0]..pair[1],
                bytes: last.end().wrapping_sub(instructions[first].address) as u32,
                edges,
                after_call: last.flow == Flow::Call,
            });
        }

        // Padding without a predecessor does not run, so it has no edge to the code behind it.
        let mut reached = vec![false; blocks.len()];
        for next in blocks.iter().flat_map(Block::successors) {
            reached[next as usize] = true;
        }
        for (block, _) in
            blocks.iter_mut().skip(1).zip(&reached[1.min(reached.len())..]).filter(|&(_, &reached)| !reached)
        {
            let range = block.instructions.start as usize..block.instructions.end as usize;
            if instructions[range].iter().all(|instruction| instruction.idle) {
                block.edges = [Edge::None; 2];
            }
        }
        Some(Graph::from_blocks(blocks))
    }

    /// Computes the predecessors from the edges.
    pub(crate) fn from_blocks(blocks: Vec<Block>) -> Graph {
        let mut predecessors_of = vec![0u32; blocks.len() + 1];
        for next in blocks.iter().flat_map(Block::successors) {
            predecessors_of[next as usize + 1] += 1;
        }
        for n in 1..predecessors_of.len() {
            predecessors_of[n] += predecessors_of[n - 1];
        }
        let mut place = predecessors_of.clone();
        let mut predecessors = vec![0u32; predecessors_of.last().map_or(0, |&count| count as usize)];
        for (n, block) in (0u32..).zip(&blocks) {
            for next in block.successors() {
                predecessors[place[next as usize] as usize] = n;
                place[next as usize] += 1;
            }
        }
        Graph { blocks, predecessors, predecessors_of }
    }

    /// The block that holds the instruction of this index.
    pub(crate) fn block_of(&self, instruction: usize) -> Option<u32> {
        let behind = self.blocks.partition_point(|block| block.instructions.start as usize <= instruction);
        Some(behind.checked_sub(1)? as u32)
    }

    /// The blocks that may precede one.
    pub(crate) fn predecessors(&self, block: u32) -> &[u32] {
        let block = block as usize;
        &self.predecessors[self.predecessors_of[block] as usize..self.predecessors_of[block + 1] as usize]
    }
}
