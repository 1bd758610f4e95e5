//! A cheap look at a short loop, before its function is decoded.
//!
//! There are thousands of short loops in a large library, and nearly all of them work: they write memory, or something
//! that they read moves. Both can be seen in the loop's own few instructions. What passes here is proven later, by
//! [`crate::proof`] and on the function's own instructions; so a mistake here costs a loop, and no more.

use crate::seeds::SHORT_BYTES_MAX;
use crate::x86;
use iced_x86::{FlowControl, InstructionInfoFactory, OpAccess, Register};

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
