//! A cheap look at a seed, before its function is decoded.
//!
//! There are thousands of short loops in a large library, and nearly all of them work: they write memory, or something
//! that they read moves. Both can be seen in the loop's own few instructions. What passes here is proven later, by
//! [`crate::proof`] and on the function's own instructions; so a mistake here costs a loop, and no more.

use crate::image::Image;
use crate::seeds::SHORT_BYTES_MAX;
use crate::x86;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use iced_x86::{FlowControl, InstructionInfoFactory, OpAccess, Register};

/// Whether a thread may come back to `address` without a call: most clocks are read where the code goes on to call something. A
/// way that is longer than these instructions is not followed, and believed to.
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

/// Whether the code from its first byte on may be a short loop in which nothing lasts: straight instructions, of which one
/// reads memory and none writes it, up to a jump back to the first; no register is read and written later.
pub(crate) fn may_wait(code: &[u8], address: u64) -> bool {
    let code = &code[..code.len().min(SHORT_BYTES_MAX + 8)];
    let mut factory = InstructionInfoFactory::new();
    let (mut lasting, mut written, mut loads) = (0u32, 0u32, false);
    for instruction in x86::decoder(code, address) {
        if instruction.is_invalid() || instruction.ip() - address > SHORT_BYTES_MAX as u64 {
            return false;
        }
        match instruction.flow_control() {
            FlowControl::Next => {}
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch if x86::near(&instruction) => {
                if instruction.near_branch_target() == address {
                    return loads && lasting & written == 0;
                }
                // Out of the loop.
                if instruction.flow_control() == FlowControl::UnconditionalBranch {
                    return false;
                }
                continue;
            }
            _ => return false,
        }
        let info = factory.info(&instruction);
        for used in info.used_memory() {
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => loads = true,
                OpAccess::None | OpAccess::NoMemAccess => {}
                _ => return false,
            }
        }
        let mut writes = 0;
        for used in info.used_registers() {
            let full = used.register().full_register();
            if !full.is_gpr64() {
                continue;
            }
            let bit = 1u32 << (full as u32 - Register::RAX as u32);
            let (reads, one) = match used.access() {
                OpAccess::Read | OpAccess::CondRead => (bit, 0),
                OpAccess::Write => (0, bit),
                OpAccess::None | OpAccess::NoMemAccess => (0, 0),
                _ => (bit, bit),
            };
            lasting |= reads & !written;
            writes |= one;
        }
        written |= writes;
    }
    false
}
