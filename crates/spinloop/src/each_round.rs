//! The code that each round of a wait runs, whatever the loop does.
//!
//! A loop that calls functions is not proven to wait. But if it has a PAUSE, the rounds that pass
//! the PAUSE wait, and so does all that each of these rounds runs, its calls included. A block that
//! only some rounds run may be the work that the others wait for: it is left out.
//!
//! Loops around the innermost one may be waits, too: a thread spins for a number of rounds, then
//! looks for work elsewhere, and spins again. The loop around belongs to the wait if only a counter
//! leads from the inner loop to the rest of it: what the inner loop waited for has not happened.
//! Otherwise the rest is what happens after the wait.

use crate::exits;
use crate::function::Function;
use crate::image::Image;
use crate::machine::Machine;
use crate::rounds::{self, NaturalLoop, Region, Rounds};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The largest loop, in blocks: the search takes the square of that.
const BLOCKS_MAX: usize = 256;

/// The blocks that each round runs which passes the instruction number `at`, in ascending order;
/// none if there is no loop, or only a large one.
pub(crate) fn blocks(machine: Machine, image: &dyn Image, function: &Function, at: usize) -> Vec<u32> {
    let graph = &function.graph;
    let Some(pivot) = graph.block_of(at) else { return Vec::new() };
    let mut all = BTreeSet::new();
    let mut inner: Option<NaturalLoop> = None;
    for wait in rounds::natural_loops(graph, &function.dominators, pivot) {
        let belongs = |inner: &NaturalLoop| goes_on(machine, image, function, at, inner, &wait);
        if wait.blocks.len() > BLOCKS_MAX || !inner.as_ref().is_none_or(belongs) {
            break;
        }
        // A round passes the head of its loop.
        let has_round_without = |left_out: u32| {
            let inside = |block: u32| block != left_out && wait.blocks.contains(&block);
            rounds::leads(graph, pivot, wait.head, inside) && rounds::leads(graph, wait.head, pivot, inside)
        };
        let own = [pivot, wait.head];
        all.extend(wait.blocks.iter().filter(|it| own.contains(it) || !has_round_without(**it)));
        inner = Some(wait);
    }
    all.into_iter().collect()
}

/// Whether only a counter leads from a loop to the rest of the loop around it.
fn goes_on(
    machine: Machine,
    image: &dyn Image,
    function: &Function,
    at: usize,
    inner: &NaturalLoop,
    around: &NaturalLoop,
) -> bool {
    let (graph, instructions) = (&function.graph, &function.instructions);
    let is_rest = |block: &u32| around.blocks.contains(block) && !inner.blocks.contains(block);
    let leads = |block: &u32| graph.blocks[*block as usize].successors().any(|next| is_rest(&next));
    let leading: Vec<u32> = inner.blocks.iter().copied().filter(leads).collect();
    let blocks = inner.blocks.iter().copied().collect();
    let region = &Region { blocks, head: inner.head, latch: inner.latch };
    let rounds = Rounds { image, instructions, graph, region, pivot: at as u32, whole: function.whole };
    !leading.is_empty() && exits::are_counted(machine, rounds, &leading)
}
