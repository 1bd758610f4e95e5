//! Which fields of a copy depend on where things are.
//!
//! A copy refers to its module, to the waiter's words and to itself. In another process all of
//! these are at other addresses, but the copy's other bytes are the same. So a copy that was made
//! once is moved there instead of made again: each such field changes by as much as what it refers
//! to, as a linker's relocations do (`R_X86_64_64`, `R_X86_64_PC32`, `R_X86_64_32S`).
//!
//! 1. A field lies in the copy's pool of words, or is an operand or a jump's distance of one whole
//!    instruction.
//! 2. To move a copy from A to B yields the bytes that [`crate::copy()`] makes for B, if the module
//!    has the same bytes there.

use alloc::vec::Vec;
use iced_x86::{ConstantOffsets, Instruction, Register};

/// What a copy refers to.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// The trampoline's address. It is jumped to, with 128 bytes stepped over on the stack and then
    /// three words pushed: where the thread stands in the original, the address to return to, the
    /// site.
    pub trampoline: u64,
    /// What the trampoline is told about the site.
    pub site: u64,
    /// The distance from the thread pointer (`fs`) to the word that is set to zero when no wait
    /// goes on.
    pub waiting: i32,
    /// The distance from the thread pointer to the word that counts the rounds until the next
    /// visit. The waiter sets it to zero, so that the next round is a visit again.
    pub rounds: i32,
    /// Where the site keeps the number of rounds before the first visit, as 64 bits.
    pub site_rounds: u64,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refers {
    /// An address in the copy, 8 bytes.
    Copy,
    /// An address in the module, 8 bytes.
    Module,
    /// The distance of an address in the module, 4 bytes.
    ModuleFrom,
    /// [`Hooks::trampoline`], 8 bytes.
    Trampoline,
    /// [`Hooks::site`], 8 bytes.
    Site,
    /// [`Hooks::waiting`], 4 bytes.
    Waiting,
    /// [`Hooks::rounds`], 4 bytes.
    Rounds,
    /// The distance of [`Hooks::site_rounds`], 4 bytes.
    SiteRoundsFrom,
}

impl Refers {
    /// By number.
    pub const ALL: [Refers; 8] = [
        Refers::Copy,
        Refers::Module,
        Refers::ModuleFrom,
        Refers::Trampoline,
        Refers::Site,
        Refers::Waiting,
        Refers::Rounds,
        Refers::SiteRoundsFrom,
    ];

    /// The field's value is this plus a constant, cut off to the field's size.
    fn base(self, bases: &Bases) -> u64 {
        let hooks = &bases.hooks;
        match self {
            Refers::Copy => bases.copy,
            Refers::Module => bases.module,
            Refers::ModuleFrom => bases.module.wrapping_sub(bases.copy),
            Refers::Trampoline => hooks.trampoline,
            Refers::Site => hooks.site,
            Refers::Waiting => i64::from(hooks.waiting) as u64,
            Refers::Rounds => i64::from(hooks.rounds) as u64,
            Refers::SiteRoundsFrom => hooks.site_rounds.wrapping_sub(bases.copy),
        }
    }

    fn is_word(self) -> bool {
        matches!(self, Refers::Copy | Refers::Module | Refers::Trampoline | Refers::Site)
    }
}

/// A field of a copy that depends on addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// At which of the copy's bytes it begins.
    pub at: u16,
    /// What it holds.
    pub refers: Refers,
}

/// The addresses that a copy depends on.
#[derive(Clone, Copy, Debug)]
pub struct Bases {
    /// Where the copy is.
    pub copy: u64,
    /// What to add to an address in the module's file for the address in memory.
    pub module: u64,
    /// What the copy refers to of the waiter's.
    pub hooks: Hooks,
}

impl Bases {
    /// Nowhere: the bytes of a copy for these do not depend on the process.
    pub const NOWHERE: Bases = Bases {
        copy: 0,
        module: 0,
        hooks: Hooks { trampoline: 0, site: 0, waiting: 0, rounds: 0, site_rounds: 0 },
    };
}

/// Adapts a copy that was made for the addresses `from` to the addresses `to`: changes the fields
/// that `relocations` lists. A plan is kept for [`Bases::NOWHERE`], so that another process can put
/// the copy at a place of its own.
///
/// Returns `None` if a field reaches beyond the end of the copy. The fields before it have been
/// changed then. The caller makes sure that the copy's new place is near enough to the module and
/// to [`Hooks::site_rounds`] for distances of four bytes. This is not checked.
pub fn relocate(
    copy: &mut [u8],
    relocations: impl IntoIterator<Item = Relocation>,
    from: &Bases,
    to: &Bases,
) -> Option<()> {
    for Relocation { at, refers } in relocations {
        let by = refers.base(to).wrapping_sub(refers.base(from));
        let field = copy.get_mut(usize::from(at)..)?;
        if refers.is_word() {
            let field = field.first_chunk_mut::<8>()?;
            *field = u64::from_le_bytes(*field).wrapping_add(by).to_le_bytes();
        } else {
            let field = field.first_chunk_mut::<4>()?;
            *field = u32::from_le_bytes(*field).wrapping_add(by as u32).to_le_bytes();
        }
    }
    Some(())
}

/// Adds the fields of one instruction, which was encoded at byte `at` of the copy. `outside`: the
/// instruction is a jump out of the copy. `None` if they cannot be told.
pub(crate) fn of_instruction(
    into: &mut Vec<Relocation>,
    instruction: &Instruction,
    outside: bool,
    at: usize,
    fields: &ConstantOffsets,
    copy: u64,
    hooks: &Hooks,
) -> Option<()> {
    let mut add = |offset: usize, refers: Refers| {
        into.push(Relocation { at: u16::try_from(at + offset).ok()?, refers });
        Some(())
    };
    if outside {
        let whole = fields.has_immediate() && fields.immediate_size() == 4;
        return whole.then_some(()).and_then(|()| add(fields.immediate_offset(), Refers::ModuleFrom));
    }
    let plain = [instruction.memory_base(), instruction.memory_index()] == [Register::None; 2];
    let of_thread = instruction.segment_prefix() == Register::FS && plain;
    let displacement = instruction.memory_displacement64();
    let refers = if instruction.is_ip_rel_memory_operand() {
        match instruction.ip_rel_memory_address() {
            // The pool.
            own if (copy..copy + at as u64).contains(&own) => return Some(()),
            word if word == hooks.site_rounds => Refers::SiteRoundsFrom,
            _ => Refers::ModuleFrom,
        }
    } else if of_thread && displacement == i64::from(hooks.waiting) as u64 {
        Refers::Waiting
    } else if of_thread && displacement == i64::from(hooks.rounds) as u64 {
        Refers::Rounds
    } else {
        return Some(());
    };
    let whole = fields.has_displacement() && fields.displacement_size() == 4;
    whole.then_some(()).and_then(|()| add(fields.displacement_offset(), refers))
}
