//! Dominators: which blocks every path to a block leads through.
//!
//! The iterative algorithm of Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm"):
//! blocks in reverse postorder, each one's immediate dominator the nearest common ancestor of its
//! predecessors', until nothing changes. Blocks without a known predecessor (the entry, landing
//! pads of exceptions, targets of jump tables) are children of one virtual root.

use crate::graph::Graph;
use alloc::vec;
use alloc::vec::Vec;

/// The dominator tree.
#[derive(Debug)]
pub(crate) struct Dominators {
    /// The position of each block in reverse postorder, counted from 1; 0 is the virtual root.
    order: Vec<u32>,
    /// The immediate dominator of each position, as a position.
    above: Vec<u32>,
    /// The edges to a block that dominates the one they come from, as latch and head: each closes a
    /// loop.
    pub(crate) back_edges: Vec<(u32, u32)>,
}

impl Dominators {
    pub(crate) fn new(graph: &Graph) -> Dominators {
        let count = graph.blocks.len();
        let mut postorder = Vec::with_capacity(count);
        let mut roots = vec![false; count];
        let mut seen = vec![false; count];
        let mut stack: Vec<(u32, usize)> = Vec::new();
        let without_predecessor = (0..count as u32).filter(|&block| graph.predecessors(block).is_empty());
        // The first block is the entry; the last pass picks up cycles without an entry.
        for root in [0].into_iter().chain(without_predecessor).chain(0..count as u32) {
            if seen.get(root as usize) != Some(&false) {
                continue;
            }
            roots[root as usize] = true;
            seen[root as usize] = true;
            stack.push((root, 0));
            while let Some(&mut (block, ref mut edge)) = stack.last_mut() {
                *edge += 1;
                match graph.blocks[block as usize].successors().nth(*edge - 1) {
                    Some(next) if !seen[next as usize] => {
                        seen[next as usize] = true;
                        stack.push((next, 0));
                    }
                    Some(_) => {}
                    None => {
                        postorder.push(block);
                        stack.pop();
                    }
                }
            }
        }

        let mut order = vec![0u32; count];
        for (n, &block) in (1u32..).zip(postorder.iter().rev()) {
            order[block as usize] = n;
        }
        const UNKNOWN: u32 = u32::MAX;
        let mut above = vec![UNKNOWN; count + 1];
        above[0] = 0;
        let mut changed = true;
        while changed {
            changed = false;
            for &block in postorder.iter().rev() {
                let mut nearest = if roots[block as usize] { 0 } else { UNKNOWN };
                for &before in graph.predecessors(block) {
                    let mut other = order[before as usize];
                    if above[other as usize] == UNKNOWN {
                        continue;
                    }
                    if nearest == UNKNOWN {
                        nearest = other;
                    }
                    while nearest != other {
                        // Dominators come earlier: the later of the two cannot be the common one.
                        if nearest > other {
                            nearest = above[nearest as usize];
                        } else {
                            other = above[other as usize];
                        }
                    }
                }
                let place = &mut above[order[block as usize] as usize];
                changed |= *place != nearest;
                *place = nearest;
            }
        }
        let mut dominators = Dominators { order, above, back_edges: Vec::new() };
        for (latch, block) in (0u32..).zip(&graph.blocks) {
            for head in block.successors() {
                if dominators.dominates(head, latch) {
                    dominators.back_edges.push((latch, head));
                }
            }
        }
        dominators
    }

    /// Whether every path to `block` leads through `dominator`.
    pub(crate) fn dominates(&self, dominator: u32, block: u32) -> bool {
        let high = self.order[dominator as usize];
        let mut at = self.order[block as usize];
        while at > high {
            at = self.above[at as usize];
        }
        at == high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Block, Edge};

    fn graph(edges: &[&[u32]]) -> Graph {
        let blocks = (0u32..).zip(edges).map(|(n, next)| {
            let edge = |n| next.get(n).map_or(Edge::None, |&block| Edge::To(block));
            Block { instructions: n..n + 1, bytes: 1, edges: [edge(0), edge(1)], after_call: false }
        });
        Graph::from_blocks(blocks.collect())
    }

    #[test]
    fn a_loop_entered_at_its_test() {
        // 0 -> 2; 1 (pause) -> 2; 2 -> 3 | 4; 3 -> 1
        let graph = graph(&[&[2], &[2], &[3, 4], &[1], &[]]);
        let dominators = Dominators::new(&graph);
        let all = |block| (0..5).filter(|&by| dominators.dominates(by, block)).collect::<Vec<_>>();
        assert_eq!(all(0), [0]);
        assert_eq!(all(2), [0, 2]);
        assert_eq!(all(3), [0, 2, 3]);
        assert_eq!(all(1), [0, 1, 2, 3]);
        assert_eq!(all(4), [0, 2, 4]);
    }

    #[test]
    fn loops_without_an_entry_and_loops_with_two_entries() {
        // 0 -> 1 | 2; 1 -> 2; 2 -> 1: neither dominates the other. 3 -> 4 -> 3: not reachable.
        let graph = graph(&[&[1, 2], &[2], &[1], &[4], &[3]]);
        let dominators = Dominators::new(&graph);
        assert!(!dominators.dominates(1, 2));
        assert!(!dominators.dominates(2, 1));
        assert!(dominators.dominates(0, 1));
        assert!(dominators.dominates(3, 4));
        assert!(!dominators.dominates(0, 4));
    }
}
