//! Unwind data for the copy of a loop.
//!
//! A debugger, a profiler or an exception that meets a thread in a copy asks how to get from there
//! to the caller of the loop's function. The module's own FDEs do not know the copy's addresses.
//! The answer is the same as in the loop, since a copy changes no register and the stack pointer
//! only for a few instructions:
//!
//! ```text
//! FDE of the function:   row | row (the loop is here) | row …       a row: where the frame begins (the CFA), and
//!                                 │                                 where each register of the caller is
//! FDE of the copy:               row, with the CFA moved on while the copy pushes ([`Copy::depths`](crate::Copy))
//! ```
//!
//! [`CallFrame::of`] executes the call frame instructions of the function's CIE and FDE and takes
//! the row of the loop. [`CallFrame::encode`] writes it, in normal form, into a table of one
//! function: `.eh_frame_hdr`, CIE, FDE, end. The unwinder then finds it as it finds the table of a
//! module.
//!
//! The personality and the landing pads are left out: a copy calls nothing, so no exception begins
//! in it, and the tables of landing pads name addresses of the original.
//!
//! 1. Bytes that are not understood give no frame: a loop without one is as visible as before, a
//!    wrong one would mislead an unwinder.
//! 2. All parts of the loop have the same row, or there is no frame.

use crate::image::Image;
use crate::unwind::{Cursor, Description, Unwind};
use alloc::vec::Vec;
use core::ops::Range;

/// The largest table that is written, in bytes. Most take a hundred.
pub const CALL_FRAME_BYTES_MAX: usize = 512;

/// The columns of a row: the general registers and the return address. Unwinders follow no others.
const COLUMNS: usize = 17;
/// The column of the stack pointer.
const STACK_POINTER: u64 = 7;
/// How many rows may be remembered at once.
const REMEMBERED_MAX: usize = 16;

/// `DW_EH_PE_*`: relative to the value's own address, or to the table's; four bytes with a sign, or
/// without.
const PC_RELATIVE_SDATA4: u8 = 0x1b;
const DATA_RELATIVE_SDATA4: u8 = 0x3b;
const UDATA4: u8 = 0x03;

/// `DW_CFA_*` ([DWARF 5, 6.4.2](https://dwarfstd.org/dwarf5std.html)). The first three keep an
/// operand in the low six bits.
mod instruction {
    pub(super) const ADVANCE: u8 = 0x40;
    pub(super) const OFFSET: u8 = 0x80;
    pub(super) const RESTORE: u8 = 0xc0;
    pub(super) const NOTHING: u8 = 0x00;
    pub(super) const ADVANCE_1: u8 = 0x02;
    pub(super) const ADVANCE_2: u8 = 0x03;
    pub(super) const ADVANCE_4: u8 = 0x04;
    pub(super) const OFFSET_EXTENDED: u8 = 0x05;
    pub(super) const RESTORE_EXTENDED: u8 = 0x06;
    pub(super) const UNDEFINED: u8 = 0x07;
    pub(super) const SAME_VALUE: u8 = 0x08;
    pub(super) const REGISTER: u8 = 0x09;
    pub(super) const REMEMBER: u8 = 0x0a;
    pub(super) const RESTORE_STATE: u8 = 0x0b;
    pub(super) const CFA: u8 = 0x0c;
    pub(super) const CFA_REGISTER: u8 = 0x0d;
    pub(super) const CFA_OFFSET: u8 = 0x0e;
    pub(super) const CFA_EXPRESSION: u8 = 0x0f;
    pub(super) const EXPRESSION: u8 = 0x10;
    pub(super) const OFFSET_SIGNED: u8 = 0x11;
    pub(super) const CFA_SIGNED: u8 = 0x12;
    pub(super) const CFA_OFFSET_SIGNED: u8 = 0x13;
    pub(super) const VALUE_OFFSET: u8 = 0x14;
    pub(super) const VALUE_OFFSET_SIGNED: u8 = 0x15;
    pub(super) const VALUE_EXPRESSION: u8 = 0x16;
    /// How much a caller pushed for a call: of interest to landing pads only.
    pub(super) const ARGUMENTS: u8 = 0x2e;
}

/// Where a frame begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cfa<'a> {
    /// At a distance from what a register holds.
    Register(u64, i64),
    /// Where an expression says.
    Expression(&'a [u8]),
}

/// Where a register of the caller is. Distances are from the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule<'a> {
    /// Nothing is said.
    Unset,
    Undefined,
    Same,
    /// In memory.
    At(i64),
    /// The address itself is the value.
    Value(i64),
    Register(u64),
    AtExpression(&'a [u8]),
    ValueExpression(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row<'a> {
    cfa: Option<Cfa<'a>>,
    rules: [Rule<'a>; COLUMNS],
}

impl<'a> Row<'a> {
    const EMPTY: Row<'static> = Row { cfa: None, rules: [Rule::Unset; COLUMNS] };

    /// Columns beyond ours are nobody's.
    fn set(&mut self, column: u64, rule: Rule<'a>) {
        if let Some(place) = usize::try_from(column).ok().and_then(|column| self.rules.get_mut(column)) {
            *place = rule;
        }
    }
}

/// How to get from a loop to its function's caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFrame<'a> {
    row: Row<'a>,
    return_register: u8,
    is_signal: bool,
}

impl<'a> CallFrame<'a> {
    /// The frame in which all of `parts` run, of a module whose table of functions is at
    /// `eh_frame_hdr`.
    pub fn of(image: &'a dyn Image, eh_frame_hdr: u64, parts: &[Range<u64>]) -> Option<CallFrame<'a>> {
        let unwind = Unwind::new(image, eh_frame_hdr)?;
        let mut all = None;
        for part in parts {
            let description = unwind.description(part.start)?;
            if part.is_empty() || part.end > description.range.end {
                return None;
            }
            let return_register = u8::try_from(description.common.return_register).ok()?;
            let frame = CallFrame {
                row: row_of(&description, part)?,
                return_register: (usize::from(return_register) < COLUMNS).then_some(return_register)?,
                is_signal: description.common.is_signal,
            };
            if *all.get_or_insert_with(|| frame.clone()) != frame {
                return None;
            }
        }
        all
    }

    /// The table for `code`, to stand at `at`, a multiple of 4 within two gigabytes. `depths`: from
    /// which distance from the code's start on the stack pointer is lower than in the loop, and by
    /// how much.
    ///
    /// `None` if the row cannot be moved along with the stack pointer, or the table would be too
    /// long.
    pub fn encode(&self, at: u64, code: &Range<u64>, depths: &[(u64, i64)]) -> Option<Vec<u8>> {
        let mut bytes = Vec::from([1, PC_RELATIVE_SDATA4, UDATA4, DATA_RELATIVE_SDATA4]);
        let distance =
            |to: u64, from: u64| Some(i32::try_from(to.wrapping_sub(from) as i64).ok()?.to_le_bytes());
        const HEADER: u64 = 20;
        bytes.extend(distance(at + HEADER, at + 4)?);
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(distance(code.start, at)?);
        let mut common = Vec::from([0, 0, 0, 0, 1, b'z', b'R']);
        common.extend(self.is_signal.then_some(b'S'));
        // Units of 1 for code and data, one byte of augmentation.
        common.extend([0, 1, 1, self.return_register, 1, PC_RELATIVE_SDATA4]);
        let common = record(common);
        let own_at = at + HEADER + common.len() as u64;
        bytes.extend(distance(own_at, at)?);
        bytes.extend(&common);
        let mut own = Vec::from((common.len() as u32 + 4).to_le_bytes());
        own.extend(distance(code.start, own_at + 8)?);
        own.extend(u32::try_from(code.end.checked_sub(code.start)?).ok()?.to_le_bytes());
        own.push(0);
        self.write_row(&mut own)?;
        self.write_depths(&mut own, depths)?;
        bytes.extend(record(own));
        bytes.extend([0; 4]);
        (bytes.len() <= CALL_FRAME_BYTES_MAX).then_some(bytes)
    }

    fn write_row(&self, into: &mut Vec<u8>) -> Option<()> {
        match self.row.cfa? {
            Cfa::Register(register, distance) => {
                into.push(instruction::CFA_SIGNED);
                unsigned(into, register);
                signed(into, distance);
            }
            Cfa::Expression(expression) => {
                into.push(instruction::CFA_EXPRESSION);
                block(into, expression);
            }
        }
        for (column, rule) in self.row.rules.iter().enumerate() {
            let mut begin = |code: u8| {
                into.push(code);
                unsigned(into, column as u64);
            };
            match rule {
                Rule::Unset => {}
                Rule::Undefined => begin(instruction::UNDEFINED),
                Rule::Same => begin(instruction::SAME_VALUE),
                Rule::At(distance) => {
                    begin(instruction::OFFSET_SIGNED);
                    signed(into, *distance);
                }
                Rule::Value(distance) => {
                    begin(instruction::VALUE_OFFSET_SIGNED);
                    signed(into, *distance);
                }
                Rule::Register(register) => {
                    begin(instruction::REGISTER);
                    unsigned(into, *register);
                }
                Rule::AtExpression(expression) => {
                    begin(instruction::EXPRESSION);
                    block(into, expression);
                }
                Rule::ValueExpression(expression) => {
                    begin(instruction::VALUE_EXPRESSION);
                    block(into, expression);
                }
            }
        }
        Some(())
    }

    fn write_depths(&self, into: &mut Vec<u8>, depths: &[(u64, i64)]) -> Option<()> {
        if depths.is_empty() {
            return Some(());
        }
        let moves = |rule: &Rule<'_>| match rule {
            Rule::AtExpression(expression) | Rule::ValueExpression(expression) => {
                reads_stack_pointer(expression)
            }
            Rule::Register(register) => *register == STACK_POINTER,
            _ => false,
        };
        if self.row.rules.iter().any(moves) {
            return None;
        }
        let distance = match self.row.cfa? {
            Cfa::Register(STACK_POINTER, distance) => distance,
            Cfa::Expression(expression) if reads_stack_pointer(expression) => return None,
            // It does not move.
            _ => return Some(()),
        };
        let mut last = 0;
        for &(from, depth) in depths {
            into.push(instruction::ADVANCE_4);
            into.extend(u32::try_from(from.checked_sub(last)?).ok()?.to_le_bytes());
            into.push(instruction::CFA_OFFSET_SIGNED);
            signed(into, distance.checked_add(depth)?);
            last = from;
        }
        Some(())
    }
}

/// Whether an expression may read the stack pointer: one of its bytes is `DW_OP_breg7`,
/// `DW_OP_reg7`, or names a register by number.
fn reads_stack_pointer(expression: &[u8]) -> bool {
    expression.iter().any(|byte| matches!(byte, 0x77 | 0x57 | 0x90 | 0x92))
}

/// A CIE or FDE: its length, its content, and zeroes (`DW_CFA_nop`) up to a multiple of 4.
fn record(mut content: Vec<u8>) -> Vec<u8> {
    content.resize(content.len().next_multiple_of(4), 0);
    let mut bytes = Vec::from((content.len() as u32).to_le_bytes());
    bytes.append(&mut content);
    bytes
}

fn unsigned(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn signed(into: &mut Vec<u8>, mut value: i64) {
    while !(-0x40..0x40).contains(&value) {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8 & 0x7f);
}

fn block(into: &mut Vec<u8>, bytes: &[u8]) {
    unsigned(into, bytes.len() as u64);
    into.extend(bytes);
}

/// The one row of all instructions in `part`.
fn row_of<'a>(description: &Description<'a>, part: &Range<u64>) -> Option<Row<'a>> {
    let mut rows = Rows { description, row: Row::EMPTY, initial: Row::EMPTY, remembered: Vec::new() };
    let mut common = Cursor { bytes: description.common.instructions, address: 0 };
    while !common.bytes.is_empty() {
        rows.step(&mut common)?;
    }
    rows.initial = rows.row;
    let mut own = Cursor { bytes: description.instructions, address: 0 };
    let (mut at, mut found) = (description.range.start, None);
    while at < part.end {
        // What is executed before the next advance holds from `at` on.
        let mut advance = 0;
        while advance == 0 && !own.bytes.is_empty() {
            advance = rows.step(&mut own)?;
        }
        let next = if advance == 0 { description.range.end } else { at.checked_add(advance)? };
        if part.start < next && *found.get_or_insert(rows.row) != rows.row {
            return None;
        }
        at = next;
    }
    found
}

/// Executes call frame instructions.
struct Rows<'d, 'a> {
    description: &'d Description<'a>,
    row: Row<'a>,
    /// The row after the CIE's instructions.
    initial: Row<'a>,
    remembered: Vec<Row<'a>>,
}

impl<'a> Rows<'_, 'a> {
    /// Executes one; returns how far it moves on in the code.
    fn step(&mut self, program: &mut Cursor<'a>) -> Option<u64> {
        let common = &self.description.common;
        let code = |distance: u64| distance.checked_mul(common.code_align);
        let data = |distance: i64| distance.checked_mul(common.data_align);
        let data_unsigned = |distance: u64| data(i64::try_from(distance).ok()?);
        let [first] = program.take()?;
        let low = u64::from(first & 0x3f);
        match first & 0xc0 {
            instruction::ADVANCE => return code(low),
            instruction::OFFSET => {
                self.row.set(low, Rule::At(data_unsigned(program.unsigned()?)?));
                return Some(0);
            }
            instruction::RESTORE => {
                self.restore(low);
                return Some(0);
            }
            _ => {}
        }
        match first {
            instruction::NOTHING => {}
            instruction::ADVANCE_1 => return code(u64::from(u8::from_le_bytes(program.take()?))),
            instruction::ADVANCE_2 => return code(u64::from(u16::from_le_bytes(program.take()?))),
            instruction::ADVANCE_4 => return code(u64::from(u32::from_le_bytes(program.take()?))),
            instruction::OFFSET_EXTENDED => {
                self.row.set(program.unsigned()?, Rule::At(data_unsigned(program.unsigned()?)?));
            }
            instruction::OFFSET_SIGNED => {
                self.row.set(program.unsigned()?, Rule::At(data(program.signed()?)?));
            }
            instruction::VALUE_OFFSET => {
                self.row.set(program.unsigned()?, Rule::Value(data_unsigned(program.unsigned()?)?));
            }
            instruction::VALUE_OFFSET_SIGNED => {
                self.row.set(program.unsigned()?, Rule::Value(data(program.signed()?)?));
            }
            instruction::RESTORE_EXTENDED => self.restore(program.unsigned()?),
            instruction::UNDEFINED => self.row.set(program.unsigned()?, Rule::Undefined),
            instruction::SAME_VALUE => self.row.set(program.unsigned()?, Rule::Same),
            instruction::REGISTER => self.row.set(program.unsigned()?, Rule::Register(program.unsigned()?)),
            instruction::EXPRESSION => {
                self.row.set(program.unsigned()?, Rule::AtExpression(program.block()?.bytes));
            }
            instruction::VALUE_EXPRESSION => {
                self.row.set(program.unsigned()?, Rule::ValueExpression(program.block()?.bytes));
            }
            instruction::REMEMBER if self.remembered.len() < REMEMBERED_MAX => self.remembered.push(self.row),
            instruction::RESTORE_STATE => self.row = self.remembered.pop()?,
            instruction::CFA => {
                self.row.cfa =
                    Some(Cfa::Register(program.unsigned()?, i64::try_from(program.unsigned()?).ok()?));
            }
            instruction::CFA_SIGNED => {
                self.row.cfa = Some(Cfa::Register(program.unsigned()?, data(program.signed()?)?));
            }
            instruction::CFA_REGISTER => match &mut self.row.cfa {
                Some(Cfa::Register(register, _)) => *register = program.unsigned()?,
                _ => return None,
            },
            instruction::CFA_OFFSET => {
                let distance = i64::try_from(program.unsigned()?).ok()?;
                self.move_cfa(distance)?;
            }
            instruction::CFA_OFFSET_SIGNED => {
                let distance = data(program.signed()?)?;
                self.move_cfa(distance)?;
            }
            instruction::CFA_EXPRESSION => self.row.cfa = Some(Cfa::Expression(program.block()?.bytes)),
            instruction::ARGUMENTS => {
                program.unsigned()?;
            }
            _ => return None,
        }
        Some(0)
    }

    fn restore(&mut self, column: u64) {
        let rule = usize::try_from(column).ok().and_then(|column| self.initial.rules.get(column));
        self.row.set(column, rule.copied().unwrap_or(Rule::Unset));
    }

    fn move_cfa(&mut self, to: i64) -> Option<()> {
        match &mut self.row.cfa {
            Some(Cfa::Register(_, distance)) => *distance = to,
            _ => return None,
        }
        Some(())
    }
}
