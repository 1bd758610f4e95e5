//! A cheap check of a seed, before its function is decoded.
//!
//! There are thousands of short loops in a large library, and nearly all of them do work: they
//! write memory, or the address that they read changes. Both are visible in the few instructions of
//! the loop. [`crate::proof`] later proves what passes this check, with the instructions of the
//! whole function. So a mistake here only misses a loop.

use crate::graph::{Graph, index_of};
use crate::image::Image;
use crate::proof;
use crate::rounds::{self, Rounds};
use crate::seeds::{NESTED_BYTES_MAX, SHORT_BYTES_MAX};
use crate::source::Source;
use crate::x86;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{FlowControl, InstructionInfoFactory, Register};

/// Whether a thread may come back to `address` without a call: most clocks are read where the code
/// goes on to call something. A longer path is not followed; the thread is then taken to come back.
pub(crate) fn may_return(image: &dyn Image, address: u64) -> bool {
    const INSTRUCTIONS_MAX: usize = 192;
    let mut left = INSTRUCTIONS_MAX;
    let mut seen = BTreeSet::new();
    let mut open = Vec::from([address]);
    while let Some(from) = open.pop() {
        if !seen.insert(from) {
            continue;
        }
        for instruction in x86::decoder(image.at(from), from) {
            if instruction.ip() == address && left < INSTRUCTIONS_MAX || left == 0 {
                return true;
            }
            left -= 1;
            let target = x86::near(&instruction).then(|| instruction.near_branch_target());
            match (instruction.flow_control(), target) {
                (FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch, Some(target))
                    if target == address =>
                {
                    return true;
                }
                (FlowControl::Next, _) if !instruction.is_invalid() => {}
                (FlowControl::ConditionalBranch, Some(target)) => open.push(target),
                (FlowControl::UnconditionalBranch, Some(target)) => {
                    open.push(target);
                    break;
                }
                _ => break,
            }
        }
    }
    false
}

/// Whether nothing but a counter lasts in a loop of the bytes in `range`, taken for a function of
/// its own: what is proven of a loop with all of its function is proven of each part of it that is
/// a loop, too.
pub(crate) fn may_be_proven(source: &Source<'_>, range: Range<u64>, pivot: u64, nested: bool) -> bool {
    let proven = || {
        let instructions = source.decode(&range)?;
        let graph = Graph::new(&instructions, core::slice::from_ref(&range), source.image)?;
        let pivot = index_of(&instructions, pivot)?;
        let region = rounds::around(&graph, graph.block_of(pivot)?)?;
        let (image, pivot) = (source.image, pivot as u32);
        let (instructions, graph, region) = (&instructions, &graph, &region);
        let rounds = Rounds { image, instructions, graph, region, pivot, whole: true };
        proof::prove(rounds, nested)
    };
    proven().is_some()
}

/// Returns the loop's end if the code may be a short wait: no memory is written, some is read, a
/// jump leads back to the first instruction, and no register of an address changes.
pub(crate) fn may_wait(code: &[u8], address: u64) -> Option<u64> {
    let code = &code[..code.len().min(SHORT_BYTES_MAX + 8)];
    let mut seen = Seen::new();
    for instruction in x86::decoder(code, address) {
        if instruction.is_invalid() || instruction.ip() - address > SHORT_BYTES_MAX as u64 {
            return None;
        }
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if x86::near(&instruction) => {
                if instruction.near_branch_target() == address {
                    let waits = seen.loads && seen.lasting & seen.written & seen.addresses == 0;
                    return waits.then_some(instruction.next_ip());
                }
                // Out of the loop.
                if instruction.flow_control() == FlowControl::UnconditionalBranch {
                    return None;
                }
                continue;
            }
            _ => return None,
        }
        seen.take(&instruction)?;
    }
    None
}

/// Returns a pivot and the loop's end, if the code may be a loop around a loop in which nothing
/// lasts. The outer rounds pass the pivot, the inner ones do not. The pivot stands where nothing of
/// the inner loop is set yet: behind the jumps past the inner loop, or, if both begin at the same
/// place, behind those that follow the inner one.
pub(crate) fn nested(code: &[u8], address: u64) -> Option<(u64, u64)> {
    let code = &code[..code.len().min(NESTED_BYTES_MAX + 8)];
    let mut seen = Seen::new();
    // Behind which jumps forward a pivot may stand, and where the inner loop lies.
    let (mut past, mut inner): (Vec<u64>, Option<Range<u64>>) = (Vec::new(), None);
    for instruction in x86::decoder(code, address) {
        if instruction.is_invalid() || instruction.ip() - address > NESTED_BYTES_MAX as u64 {
            return None;
        }
        match instruction.flow_control() {
            FlowControl::Next => seen.take(&instruction)?,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if x86::near(&instruction) => {
                let target = instruction.near_branch_target();
                match inner {
                    Some(inner) if target == address => {
                        let behind = past.last().copied().filter(|&past| past > inner.end);
                        let before = past.iter().copied().rfind(|&past| past <= inner.start);
                        let pivot = if inner.start == address {
                            behind.unwrap_or(inner.end)
                        } else {
                            before.unwrap_or(address)
                        };
                        return seen.loads.then_some((pivot, instruction.next_ip()));
                    }
                    _ if (address..instruction.ip()).contains(&target) => {
                        inner = Some(target..instruction.next_ip());
                    }
                    _ => past.push(instruction.next_ip()),
                }
            }
            _ => return None,
        }
    }
    None
}

/// What the instructions of a loop do.
struct Seen {
    factory: InstructionInfoFactory,
    /// Registers that are read before they are written, one bit each.
    lasting: u32,
    written: u32,
    /// Those that form addresses of memory.
    addresses: u32,
    loads: bool,
}

impl Seen {
    fn new() -> Self {
        Seen { factory: InstructionInfoFactory::new(), lasting: 0, written: 0, addresses: 0, loads: false }
    }

    /// Takes the next instruction in; none if it writes memory.
    fn take(&mut self, instruction: &iced_x86::Instruction) -> Option<()> {
        let bit = |register: Register| {
            let full = register.full_register();
            if full.is_gpr64() { 1u32 << (full as u32 - Register::RAX as u32) } else { 0 }
        };
        let info = self.factory.info(instruction);
        for used in info.used_memory() {
            let (reads, writes) = x86::access(used.access());
            if writes {
                return None;
            }
            if reads {
                self.loads = true;
                self.addresses |= bit(used.base()) | bit(used.index());
            }
        }
        let mut written = 0;
        for used in info.used_registers() {
            let bit = bit(used.register());
            let (reads, writes) = x86::access(used.access());
            if reads {
                self.lasting |= bit & !self.written;
            }
            if writes {
                written |= bit;
            }
        }
        self.written |= written;
        Some(())
    }
}
