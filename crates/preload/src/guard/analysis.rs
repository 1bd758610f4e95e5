//! What the finder says of a module, written down as plans ([`super::plan`]).
//!
//! A copy is made here for each wait, at made-up addresses in reach of the module. The addresses
//! are then subtracted from its fields, so the copy does not depend on the process: a second start
//! finds in the cache the copy that a first start uses.
//!
//! Filters are not asked here: what is kept in the cache is the same whatever filters the process
//! has.
//!
//! Invariants:
//! 1. All findings and jump sites of a module are asked for before anything of it is written
//!    ([`spinloop::Finder`]).
//! 2. What a copy refers to in the module lies within the module's extent, so any place in reach of
//!    the extent serves.
//! 3. Text is the file's. So a plan does not depend on what another party has written into the
//!    mapped text, such as a debugger's breakpoints.

use super::code_space::Piece;
use super::frames;
use super::module_file::FileText;
use super::plan::{Made, NO_ROW, NOT_COPIED, Writer};
use crate::elf::imports;
use crate::elf::modules::Module;
use alloc::vec::Vec;
use core::ops::Range;
use platform::file::File;
use spinloop::relocation::{Bases, Refers, Relocation, relocate};
use spinloop::{
    CallFrame, Finder, Finding, Hooks, Image, JumpSite, Kind, Loop, Machine, Original, Seed, Segments, copy,
};

/// The machine of this process.
pub const MACHINE: Machine = if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };

/// How far from a module its copies are made: outside of the module, and in reach of every jump.
const DISTANCE: usize = 1 << 20;

/// The plans of a module with these seeds. `file` is the module's file. `relocated` is what the
/// loader is going to write into the module's data, by address. With `rows`, several instructions
/// may be replaced by one jump. `None` if the file's text cannot be read.
pub fn plans(
    module: &Module<'_>,
    file: &File,
    relocated: &[(usize, Vec<u8>)],
    seeds: &[(Seed, usize)],
    rows: bool,
) -> Option<Vec<u8>> {
    let mut writer = Writer::new(module.bias);
    if seeds.is_empty() {
        return Some(writer.finish());
    }
    // By Invariant 3.
    let file_text = FileText::of(module, file)?;
    let slice = |range: Range<usize>| {
        // SAFETY: the segments are mapped and readable while the loader shows the module (Invariant
        // 2 of the search). Segments that may be written are read only while no other thread runs;
        // otherwise `relocated` stands in front of them.
        let bytes = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
        (range.start as u64, bytes)
    };
    // `Segments` takes the first that holds an address: relocated data and the file's text hide the
    // mapped ones.
    let data = relocated.iter().map(|(start, bytes)| (*start, bytes.as_slice()));
    let instead = data.chain(file_text.segments()).map(|(start, bytes)| (start as u64, bytes));
    let segments: Vec<(u64, &[u8])> = instead.chain(module.readable().map(slice)).collect();
    let text: Vec<Range<u64>> =
        module.text().map(|(range, _)| range.start as u64..range.end as u64).collect();
    let image = Segments(&segments);
    let unwind = module.eh_frame_hdr().map(|address| address as u64);
    let module_of = spinloop::Module::new(MACHINE, &image, &text, unwind);
    let mut finder = Finder::with_imports(module_of, imports::blocking(module));
    for &(seed, address) in seeds {
        match finder.analyse(address as u64, seed) {
            Finding::Nothing => {}
            Finding::Leave(reason) => writer.no_wait(address, reason.words()),
            Finding::Wait(found) => {
                let planned = match finder.jump_site(&found, rows) {
                    None => Err(if rows { "no jump fits" } else { NO_ROW }),
                    Some(jump_site) => plan(&mut writer, module, &image, unwind, &found, &jump_site),
                };
                if let Err(reason) = planned {
                    writer.refused(address, reason);
                }
            }
        }
    }
    Some(writer.finish())
}

fn plan(
    writer: &mut Writer,
    module: &Module<'_>,
    image: &dyn Image,
    unwind: Option<u64>,
    found: &Loop,
    jump_site: &JumpSite,
) -> Result<(), &'static str> {
    let replaced = [jump_site.replaced.clone()];
    let is_loop = found.kind.is_loop();
    let parts = if is_loop { found.parts.as_slice() } else { replaced.as_slice() };
    let counted = matches!(found.kind, Kind::Counted(_));
    let original = Original {
        parts,
        pivot: found.pivot,
        entered_at: jump_site.replaced.start,
        is_loop,
        only_pivot: counted || found.nests,
    };
    let from = somewhere(module).ok_or(NOT_COPIED)?;
    let made = copy(image, &original, from.copy, &from.hooks).ok_or(NOT_COPIED)?;
    if counted && !made.spins {
        // A visit in every round would make the author's number of rounds take several times as
        // long.
        return Err("its flags are in use in every round");
    }
    let (mut bytes, mut relocations) = (made.bytes, made.relocations);
    if !stays_inside(module, &from, &bytes, &relocations) {
        return Err(NOT_COPIED);
    }
    let frame = unwind.and_then(|header| CallFrame::of(image, header, parts)).and_then(|frame| {
        frames::append(&mut bytes, from.copy as usize, &made.depths, original.pivot, &frame)
    });
    if let Some(frame) = frame {
        let at = u16::try_from(frames::original_of(frame)).map_err(|_| NOT_COPIED)?;
        relocations.push(Relocation { at, refers: Refers::Module });
    }
    relocate(&mut bytes, relocations.iter().copied(), &from, &Bases::NOWHERE).ok_or(NOT_COPIED)?;
    let made = Made {
        code: &bytes,
        entry: (made.entry - from.copy) as usize,
        spins: made.spins && is_loop,
        frame,
        relocations: &relocations,
    };
    writer.repair(image, found, parts, jump_site, &made).ok_or(NOT_COPIED)
}

/// Made-up addresses near the module.
fn somewhere(module: &Module<'_>) -> Option<Bases> {
    /// Distances from the thread pointer at which no program has anything.
    const OF_THREAD: i32 = i32::MIN;
    let extent = module.extent();
    let below = extent.start.checked_sub(DISTANCE).filter(|&address| address > 0);
    let copy = below.or_else(|| extent.end.checked_add(DISTANCE))? & !(Piece::ALIGN - 1);
    let hooks = Hooks {
        trampoline: 0,
        site: 0,
        waiting: OF_THREAD,
        rounds: OF_THREAD + 8,
        site_rounds: copy as u64 - 8,
    };
    Some(Bases { copy: copy as u64, module: module.bias as u64, hooks })
}

/// By Invariant 2.
fn stays_inside(module: &Module<'_>, from: &Bases, bytes: &[u8], relocations: &[Relocation]) -> bool {
    let extent = module.extent();
    relocations.iter().filter(|relocation| relocation.refers == Refers::ModuleFrom).all(|relocation| {
        let field = bytes.get(usize::from(relocation.at)..).and_then(|field| field.first_chunk::<4>());
        field.is_some_and(|field| {
            // The distance is counted from the instruction's end, which may be a few bytes behind
            // the field's: that is no matter here.
            let from = from.copy + u64::from(relocation.at) + 4;
            let to = from.wrapping_add_signed(i64::from(i32::from_le_bytes(*field)));
            (extent.start as u64..=extent.end as u64).contains(&to)
        })
    })
}
