//! The loop that a pivot waits in.
//!
//! The innermost loop counts: a delay loop inside a spin is a delay loop. Loops are natural loops,
//! one for each back edge, the smallest first (`for (;;) { if (idle) { pause; continue; } work }`
//! is a short loop and a long one with the same head). In an innermost loop, only *short rounds*
//! matter: paths from the pivot back to itself that make no call and take at most
//! [`ROUND_BYTES_MAX`] bytes of code. A round that calls yields, parks or does work, and a loop of
//! long rounds does something else than wait. The blocks of all
//! short rounds form the *region*, and the edges out of it are its exits: to the code behind the
//! loop, but also to the yield after the thousandth round.
//!
//! Jumps whose targets are not known can hide an edge, so that a loop seems smaller than it is. The
//! verdict is wrong then. That costs time, never correctness: at a PAUSE any delay is allowed.

use crate::dominators::Dominators;
use crate::graph::{Edge, Graph};
use crate::image::Image;
use crate::instruction::Instruction;
use crate::verdict::Reason;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The longest round of a busy-wait loop. The longest known, in storage engines, have less than 100
/// bytes; unoptimised code takes about five times as much.
pub(crate) const ROUND_BYTES_MAX: u32 = 512;
/// A natural loop is not followed further than this.
const LOOP_BYTES_MAX: u32 = 1 << 16;

/// The blocks of the short rounds through a pivot.
#[derive(Debug)]
pub(crate) struct Region {
    /// In ascending order.
    pub(crate) blocks: Vec<u32>,
    /// The loop's first block.
    pub(crate) head: u32,
    /// The block whose jump closes the loop.
    pub(crate) latch: u32,
}

impl Region {
    pub(crate) fn contains(&self, block: u32) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }

    /// Whether `edge` stays in the region.
    pub(crate) fn holds(&self, edge: Edge) -> bool {
        matches!(edge, Edge::To(block) if self.contains(block))
    }
}

/// The region of a pivot, in its function.
#[derive(Clone, Copy)]
pub(crate) struct Rounds<'a> {
    pub(crate) image: &'a dyn Image,
    pub(crate) instructions: &'a [Instruction],
    pub(crate) graph: &'a Graph,
    pub(crate) region: &'a Region,
    /// The index of the pivot.
    pub(crate) pivot: u32,
    /// These are all instructions of the function.
    pub(crate) whole: bool,
}

/// The short rounds through the block `pivot` in the innermost loop that has any.
pub(crate) fn region(graph: &Graph, dominators: &Dominators, pivot: u32) -> Option<Region> {
    let loops = natural_loops(graph, dominators, pivot);
    for one in &loops {
        let inside = |block| one.blocks.contains(&block);
        if let Some(blocks) = short_rounds(graph, pivot, inside) {
            return Some(Region { blocks, head: one.head, latch: one.latch });
        }
    }
    // Loops that are entered in the middle have no back edge: then all rounds through the pivot are
    // one loop.
    let blocks = loops.is_empty().then(|| short_rounds(graph, pivot, |_| true)).flatten()?;
    let latch = graph.predecessors(pivot).iter().copied().find(|before| blocks.contains(before));
    Some(Region { blocks, head: pivot, latch: latch.unwrap_or(pivot) })
}

/// The blocks of all short rounds through the block `pivot`, whatever the loop.
pub(crate) fn around(graph: &Graph, pivot: u32) -> Option<Region> {
    let blocks = short_rounds(graph, pivot, |_| true)?;
    Some(Region { blocks, head: pivot, latch: pivot })
}

/// Whether a path of one block at least leads from one block to another, among these blocks. It may
/// call.
pub(crate) fn leads(graph: &Graph, from: u32, to: u32, inside: impl Fn(u32) -> bool) -> bool {
    let (reached, round) = reach(graph, from, u32::MAX, true, inside, Graph::forward);
    if from == to { round.is_some() } else { reached.contains_key(&to) }
}

/// Why no short round leads through the block `pivot`.
pub(crate) fn why_none(graph: &Graph, pivot: u32) -> Reason {
    if !leads(graph, pivot, pivot, |_| true) {
        Reason::NotInALoop
    } else if reach(graph, pivot, u32::MAX, false, |_| true, Graph::forward).1.is_none() {
        // Each round calls a function, which may do work.
        Reason::Works
    } else {
        Reason::TooLong
    }
}

pub(crate) struct NaturalLoop {
    pub(crate) head: u32,
    pub(crate) latch: u32,
    pub(crate) blocks: BTreeSet<u32>,
    pub(crate) bytes: u32,
}

/// The natural loops that hold the block `pivot`: of each edge back to a block that dominates its
/// start, all blocks from which the start can be reached without passing the head. The smallest
/// loop comes first.
pub(crate) fn natural_loops(graph: &Graph, dominators: &Dominators, pivot: u32) -> Vec<NaturalLoop> {
    let mut loops = Vec::new();
    for &(latch, head) in &dominators.back_edges {
        if !dominators.dominates(head, pivot) {
            continue;
        }
        let mut blocks = BTreeSet::from([head]);
        let mut bytes = graph.blocks[head as usize].bytes;
        let mut open = Vec::from([latch]);
        while let Some(block) = open.pop() {
            if bytes <= LOOP_BYTES_MAX && blocks.insert(block) {
                bytes = bytes.saturating_add(graph.blocks[block as usize].bytes);
                open.extend_from_slice(graph.predecessors(block));
            }
        }
        if bytes <= LOOP_BYTES_MAX && blocks.contains(&pivot) {
            loops.push(NaturalLoop { head, latch, blocks, bytes });
        }
    }
    loops.sort_by_key(|one| one.bytes);
    loops
}

/// The blocks of the shortest round through the block `pivot` alone: a loop that is entered at two
/// places is a part of larger ones only, as natural loops go.
pub(crate) fn shortest(graph: &Graph, pivot: u32) -> Option<Region> {
    let (_, round) = reach(graph, pivot, ROUND_BYTES_MAX, false, |_| true, Graph::forward);
    let blocks = rounds_up_to(graph, pivot, round?, |_| true)?;
    let latch = graph.predecessors(pivot).iter().copied().find(|before| blocks.contains(before))?;
    Some(Region { blocks, head: pivot, latch })
}

/// The blocks that lie on a short round through `pivot` inside a loop, in ascending order.
fn short_rounds(graph: &Graph, pivot: u32, inside: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
    rounds_up_to(graph, pivot, ROUND_BYTES_MAX, inside)
}

/// The same for rounds of `bytes_max` bytes at most.
fn rounds_up_to(graph: &Graph, pivot: u32, bytes_max: u32, inside: impl Fn(u32) -> bool) -> Option<Vec<u32>> {
    let (from, round) = reach(graph, pivot, bytes_max, false, &inside, Graph::forward);
    round.filter(|&bytes| bytes <= bytes_max)?;
    let (back, _) = reach(graph, pivot, bytes_max, false, &inside, Graph::backward);
    let short = from.iter().filter_map(|(&block, &there)| {
        let here = graph.blocks[block as usize].bytes;
        let round = there.saturating_add(*back.get(&block)?).saturating_sub(here);
        // Both distances count PAUSE's block as well as this one.
        let round = if block == pivot { there } else { round - graph.blocks[pivot as usize].bytes };
        (round <= bytes_max).then_some(block)
    });
    Some(short.collect())
}

/// How many bytes the shortest path takes from a block to each that it reaches, both counted; and
/// the shortest path back to itself, counted once.
fn reach<'g, N: Iterator<Item = u32>>(
    graph: &'g Graph,
    start: u32,
    bytes_max: u32,
    calls: bool,
    inside: impl Fn(u32) -> bool,
    next: impl Fn(&'g Graph, u32, bool) -> N,
) -> (BTreeMap<u32, u32>, Option<u32>) {
    let mut nearest = BTreeMap::new();
    let mut round: Option<u32> = None;
    let mut open = BTreeSet::from([(graph.blocks[start as usize].bytes, start)]);
    while let Some((bytes, block)) = open.pop_first() {
        if nearest.contains_key(&block) {
            continue;
        }
        nearest.insert(block, bytes);
        for other in next(graph, block, calls) {
            let total = bytes.saturating_add(graph.blocks[other as usize].bytes);
            if other == start {
                round = Some(round.map_or(bytes, |least| least.min(bytes)));
            } else if total <= bytes_max && inside(other) && !nearest.contains_key(&other) {
                open.insert((total, other));
            }
        }
    }
    (nearest, round)
}

impl Graph {
    /// The blocks behind one; those behind a call only with `calls`.
    fn forward(&self, block: u32, calls: bool) -> impl Iterator<Item = u32> {
        let block = &self.blocks[block as usize];
        block.successors().filter(move |_| calls || !block.after_call)
    }

    /// The blocks before one; those that call only with `calls`.
    fn backward(&self, block: u32, calls: bool) -> impl Iterator<Item = u32> {
        let before = self.predecessors(block).iter().copied();
        before.filter(move |&block| calls || !self.blocks[block as usize].after_call)
    }
}
