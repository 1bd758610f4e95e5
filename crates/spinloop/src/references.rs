//! Which addresses a part of a function refers to, as far as code can tell.
//!
//! Nothing may refer to dead bytes. Almost every label at an aligned place is behind the padding.
//! But an empty block before an aligned loop has its label in front of the padding, which is then
//! code. So this file collects every number that may be such a label, and rather too many than too
//! few: jumps and calls, addresses relative to the instruction, constants, and the entries of jump
//! tables, landing pads.
//!
//! A jump table is found by its address: an indirect jump's table is referred to by the same
//! function, as 32-bit distances from the table's start or as 64-bit addresses. Where an indirect
//! jump stands and no table is found, [`References::unknown`] says so.

use crate::source::Source;
use crate::x86;
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{FlowControl, Mnemonic, OpKind};

/// More entries than a `switch` in real programs has.
const TABLE_ENTRIES_MAX: usize = 4096;

/// No constant below this is an address: a module's headers stand there.
const ADDRESS_MIN: u64 = 0x40;
/// No constant from here on is an address of a program.
const ADDRESS_END: u64 = 1 << 47;

/// What a part refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct References {
    /// Addresses in code, ascending.
    pub(crate) code: Vec<u64>,
    /// Those among them that are jumped to.
    pub(crate) jumps: Vec<u64>,
    /// There is an indirect jump whose targets are not known.
    pub(crate) unknown: bool,
}

impl References {
    /// Collects them; none if `part` does not decode.
    pub(crate) fn new(source: &Source<'_>, part: &Range<u64>) -> Option<References> {
        let mut references = References::default();
        let mut data = Vec::new();
        // Nothing is mapped below, or above, and most constants are small.
        let mut constant = |value: u64| {
            if (ADDRESS_MIN..ADDRESS_END).contains(&value) {
                data.push(value);
            }
        };
        let mut indirect = false;
        for instruction in x86::decoder(source.bytes(part)?, part.start) {
            x86::flow(&instruction)?;
            if x86::near(&instruction) {
                references.code.push(instruction.near_branch_target());
                if !matches!(instruction.flow_control(), FlowControl::Call) {
                    references.jumps.push(instruction.near_branch_target());
                }
                continue;
            }
            let memory = (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
            // A jump through a slot relative to the instruction, as to an imported function, is a
            // tail call.
            indirect |= instruction.flow_control() == FlowControl::IndirectBranch
                && !(memory && instruction.is_ip_rel_memory_operand());
            if memory && instruction.mnemonic() != Mnemonic::Nop {
                constant(instruction.memory_displacement64());
            }
            for n in 0..instruction.op_count() {
                if let Ok(value) = instruction.try_immediate(n) {
                    constant(value);
                }
            }
        }
        data.sort_unstable();
        data.dedup();
        references.code.extend(source.unwind.landing_pads(part.start).into_iter().flatten());
        references.code.extend(data.iter().copied().filter(|&address| source.text.contains(address)));
        if indirect {
            let before = references.jumps.len();
            for (n, &table) in data.iter().enumerate() {
                let end = data.get(n + 1).copied().unwrap_or(u64::MAX);
                if !source.text.contains(table) {
                    references.table(source, table, end - table);
                }
            }
            references.unknown = references.jumps.len() == before;
        }
        let jumps = references.jumps.iter().copied();
        references.code.extend(jumps);
        for list in [&mut references.code, &mut references.jumps] {
            list.sort_unstable();
            list.dedup();
        }
        Some(references)
    }

    /// Takes in the entries of a jump table at `table`, if there is one, of `size` bytes at most.
    fn table(&mut self, source: &Source<'_>, table: u64, size: u64) {
        let bytes = source.image.at(table);
        let bytes = &bytes[..bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX))];
        let (near, _) = bytes.as_chunks::<4>();
        let near = near.iter().map(|&entry| table.wrapping_add_signed(i64::from(i32::from_le_bytes(entry))));
        let (far, _) = bytes.as_chunks::<8>();
        let far = far.iter().map(|&entry| u64::from_le_bytes(entry));
        let code = |&target: &u64| source.text.contains(target);
        self.jumps.extend(near.take_while(code).take(TABLE_ENTRIES_MAX));
        self.jumps.extend(far.take_while(code).take(TABLE_ENTRIES_MAX));
    }

    /// Whether something in `range` is referred to.
    pub(crate) fn refers_to(&self, range: &Range<u64>) -> bool {
        let at = self.code.partition_point(|&address| address < range.start);
        self.code.get(at).is_some_and(|&address| address < range.end)
    }
}
