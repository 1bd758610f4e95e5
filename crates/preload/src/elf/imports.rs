//! Which words of a module lead to certain functions of others.
//!
//! A call of an imported function goes through a word that the loader fills in. Its place and the function's name stand in
//! the module's relocations.

use super::modules::Module;
use super::symbols::Table;
use alloc::vec::Vec;

const DT_PLTRELSZ: u64 = 2;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_JMPREL: u64 = 23;
/// Relocations of words that lead to functions: `R_X86_64_GLOB_DAT` and `R_X86_64_JUMP_SLOT`, or their counterparts.
#[cfg(target_arch = "x86_64")]
const FUNCTIONS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const FUNCTIONS: [u32; 2] = [1025, 1026];

/// An entry with an addend.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// The addresses of the words of `module` that lead to functions with these names.
pub fn slots(module: &Module<'_>, names: &[&str]) -> Vec<u64> {
    let mut found = Vec::new();
    let (Some(dynamic), Some(symbols)) = (module.dynamic(), Table::of(module)) else { return found };
    let (mut tables, mut sizes) = ([0; 2], [0; 2]);
    let mut entry = dynamic as *const [u64; 2];
    loop {
        // SAFETY: the dynamic section is mapped and ends with an entry of tag zero.
        let [tag, value] = unsafe { entry.read() };
        match tag {
            0 => break,
            DT_JMPREL => tables[0] = value as usize,
            DT_RELA => tables[1] = value as usize,
            DT_PLTRELSZ => sizes[0] = value as usize,
            DT_RELASZ => sizes[1] = value as usize,
            _ => {}
        }
        entry = entry.wrapping_add(1);
    }
    for (table, size) in tables.into_iter().zip(sizes) {
        // The C library has relocated the addresses in the section where it may write to it.
        let table = if table < module.bias { table + module.bias } else { table };
        let whole =
            module.readable().any(|range| range.start <= table && table.saturating_add(size) <= range.end);
        if !whole {
            continue;
        }
        // SAFETY: the table lies in a segment that is mapped and readable.
        let entries = unsafe {
            core::slice::from_raw_parts(table as *const Relocation, size / size_of::<Relocation>())
        };
        for one in entries {
            if !FUNCTIONS.contains(&(one.info as u32)) {
                continue;
            }
            let name = symbols.name_of((one.info >> 32) as u32).to_bytes();
            if names.iter().any(|known| known.as_bytes() == name) {
                found.push((module.bias as u64).wrapping_add(one.offset));
            }
        }
    }
    found
}
