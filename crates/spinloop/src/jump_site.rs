//! The place of the jump into a loop's copy.
//!
//! The loop is copied whole, so the jump may stand at any instruction of a round; it leads to that
//! instruction's copy. Best is a place that only spinning threads pass, so the pivot's own block
//! comes first. In a block:
//!
//! | the jump | where | while other threads run |
//! | --- | --- | --- |
//! | [`Jump::Whole`]: five bytes | one instruction, its first five bytes in one aligned word of eight | yes: one store |
//! | [`Jump::Row`]: five bytes | instructions that follow each other | no: a thread may stand between two of them |
//! | [`Jump::Call`]: four bytes | the distance in a call, of a loop that polls by calls | if they are in one aligned word |
//! | [`Jump::Short`]: two bytes | one instruction, through dead bytes ([`crate::route`]) | yes: one store |
//!
//! 1. No jump leads between the bytes that are replaced. Within an instruction none does (a LOCK
//!    prefix is the exception, and refused). Between instructions of one block no jump of the
//!    function does, by the graph; nor does a jump table or a landing pad of it
//!    ([`Dead::is_referenced`]), and the function is known whole. A rare part may be known as one
//!    only by the jump with which it comes back, so no jump of the whole module may lead there
//!    ([`Dead::is_jumped_to`]).
//! 2. The replaced instructions belong to the loop, and their copy is complete.

use crate::dead::Dead;
use crate::function::{Function, overlap};
use crate::graph::index_of;
use crate::image::Image;
use crate::instruction::{Flow, Instruction};
use crate::route::{self, Route};
use crate::source::Source;
use crate::verdict::Loop;
use alloc::vec::Vec;
use core::ops::Range;

/// A `jmp rel32`.
const NEAR_BYTES: u64 = 5;

/// The form of a jump: see the file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// A `jmp rel32` in the place of one instruction.
    Whole,
    /// A `jmp rel32` in the place of several.
    Row,
    /// The distance of a `call rel32`, which calls the copy: this goes on to the function.
    Call,
    /// A `jmp rel8` in the place of one instruction, and on through dead bytes.
    Short(Route),
}

/// A place for a jump into a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpSite {
    /// The instructions that the jump replaces. It stands at their start.
    pub replaced: Range<u64>,
    /// Its form.
    pub jump: Jump,
}

/// The place in the call at `at`, if it is one of the nearest form.
pub(crate) fn call(image: &dyn Image, at: u64, alone: bool) -> Option<JumpSite> {
    let is_call = image.at(at).first() == Some(&0xe8);
    let fits = alone || (at + 1) % 8 + 4 <= 8;
    (is_call && fits).then_some(JumpSite { replaced: at..at + NEAR_BYTES, jump: Jump::Call })
}

/// The best place for a jump into a copy of `found`, a loop of `function`; `own_part` are the
/// instructions of the part that holds it. With `alone` no other thread can be in the function.
pub(crate) fn best(
    source: &Source<'_>,
    function: &Function,
    found: &Loop,
    dead: &mut Dead<'_>,
    taken: &mut Vec<Range<u64>>,
    own_part: &[Instruction],
    alone: bool,
) -> Option<JumpSite> {
    let (instructions, graph) = (&function.instructions, &function.graph);
    let home = graph.block_of(index_of(instructions, found.pivot)?)?;
    let inside = |range: &Range<u64>| {
        found.parts.iter().any(|part| part.start <= range.start && range.end <= part.end)
    };
    let mut blocks = Vec::from([home]);
    if found.kind.is_loop() {
        let all = 0..graph.blocks.len() as u32;
        blocks.extend(all.filter(|&n| n != home && inside(&function.block_range(n))));
    }
    let free = |range: &Range<u64>, taken: &[Range<u64>]| !taken.iter().any(|taken| overlap(taken, range));
    for block in blocks {
        let own = &graph.blocks[block as usize].instructions;
        let own = &instructions[own.start as usize..own.end as usize];
        let may_move = |one: &Instruction| !matches!(one.flow, Flow::Call | Flow::Indirect);
        let locked = |one: &Instruction| source.image.at(one.address).first() == Some(&0xf0);
        // A hint's copy is what the jump replaces, and has to hold the pivot.
        let holds = |range: &Range<u64>| found.kind.is_loop() || range.contains(&found.pivot);
        let whole = own.iter().find(|one| {
            let range = one.address..one.end();
            let fits = u64::from(one.length) >= NEAR_BYTES && one.address % 8 + NEAR_BYTES <= 8;
            fits && may_move(one) && !locked(one) && holds(&range) && free(&range, taken)
        });
        if let Some(one) = whole {
            let replaced = one.address..one.end();
            taken.push(replaced.clone());
            return Some(JumpSite { replaced, jump: Jump::Whole });
        }
        // From the pivot on, if it lies here, and then from anywhere.
        let mut starts: Vec<usize> = (0..own.len()).collect();
        starts.sort_by_key(|&n| own[n].address != found.pivot);
        if alone {
            for start in starts.iter().copied() {
                let row = own[start..].iter().take_while(|one| may_move(one));
                let Some(last) = row.clone().find(|one| one.end() - own[start].address >= NEAR_BYTES) else {
                    continue;
                };
                let replaced = own[start].address..last.end();
                let between = replaced.start + 1..replaced.start + NEAR_BYTES;
                // A row of NOPs is one statement: other functions have no label in it, and nor has
                // this one, if it says where it jumps.
                let idle = row.take_while(|one| one.address < between.end).all(|one| one.idle);
                let plain = |one: &Instruction| {
                    one.flow != Flow::Indirect
                        && !one.target().is_some_and(|target| between.contains(&target))
                };
                let untouched = idle && !own_part.is_empty() && own_part.iter().all(plain);
                let mut is_entered = || {
                    dead.is_referenced(&function.parts, &between)
                        || !idle && (!function.whole || dead.is_jumped_to(&between))
                };
                if !locked(&own[start])
                    && holds(&replaced)
                    && free(&replaced, taken)
                    && (untouched || !is_entered())
                {
                    taken.push(replaced.clone());
                    return Some(JumpSite { replaced, jump: Jump::Row });
                }
            }
        }
        for start in starts {
            let one = &own[start];
            let range = one.address..one.end();
            let fits = one.length >= 2 && one.address % 8 != 7 && may_move(one) && !locked(one);
            if fits
                && holds(&range)
                && free(&range, taken)
                && let Some(route) = route::through(dead, one.address, taken)
            {
                taken.push(range.clone());
                return Some(JumpSite { replaced: range, jump: Jump::Short(route) });
            }
        }
    }
    None
}
