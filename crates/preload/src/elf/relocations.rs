//! A module's relocations: what the loader writes into its data before its code runs.
//!
//! The relocations stand in tables of the module, and the dynamic section says where the tables
//! are. Nothing here depends on whether the loader has relocated the module already.
//!
//! Invariant 1: a table is read only if it lies whole in a segment that is mapped and readable.

use super::dynamic::{self, DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, Relocation};
use super::modules::Module;
use alloc::vec::Vec;
use core::ops::Range;

const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
/// The kind of relocation that sets the word to the module's bias plus the addend:
/// `R_X86_64_RELATIVE` or its counterpart.
#[cfg(target_arch = "x86_64")]
const RELATIVE: u32 = 8;
#[cfg(target_arch = "aarch64")]
const RELATIVE: u32 = 1027;

/// The relocations with addends: those of functions, then those of data.
pub fn with_addends<'a>(module: &Module<'a>) -> impl Iterator<Item = &'a Relocation> {
    let functions = table::<Relocation>(module, DT_JMPREL, DT_PLTRELSZ);
    functions.iter().chain(table::<Relocation>(module, DT_RELA, DT_RELASZ))
}

/// The table whose address and size the dynamic section has under these tags; empty if there is no
/// such table, or if it may not be read (Invariant 1).
fn table<'a, T>(module: &Module<'a>, tag: u64, size_tag: u64) -> &'a [T] {
    let entry =
        |wanted| module.dynamic_entries().find(|entry| entry[0] == wanted).map(|entry| entry[1] as usize);
    let (Some(start), Some(bytes)) = (entry(tag), entry(size_tag)) else { return &[] };
    let start = dynamic::in_memory(module.bias, start);
    let whole =
        module.readable().any(|range| range.start <= start && start.saturating_add(bytes) <= range.end);
    if !whole || !start.is_multiple_of(align_of::<T>()) {
        return &[];
    }
    // SAFETY: by Invariant 1.
    unsafe { core::slice::from_raw_parts(start as *const T, bytes / size_of::<T>()) }
}

/// Copies of the module's writable segments as they are after relocation, each with the segment's
/// address. `None` if there is no memory for the copies.
pub fn relocated_data(module: &Module<'_>) -> Option<Vec<(usize, Vec<u8>)>> {
    let mut copies = Vec::new();
    for Range { start, end } in module.data() {
        let mut copy = Vec::new();
        copy.try_reserve_exact(end - start).ok()?;
        // SAFETY: the segment is mapped and readable. Where other threads write it meanwhile, each
        // byte is the old one or the new one; the words that the finder needs are set below.
        copy.extend_from_slice(unsafe { core::slice::from_raw_parts(start as *const u8, end - start) });
        copies.push((start, copy));
    }
    let mut change = |offset: u64, value: &dyn Fn(usize) -> usize| {
        let address = module.bias.wrapping_add(offset as usize);
        let word = copies.iter_mut().find_map(|(start, bytes)| {
            let at = address.checked_sub(*start)?;
            bytes.get_mut(at..)?.first_chunk_mut::<8>()
        });
        if let Some(word) = word {
            *word = value(usize::from_le_bytes(*word)).to_le_bytes();
        }
    };
    for one in with_addends(module).filter(|one| one.kind() == RELATIVE) {
        change(one.offset, &|_| module.bias.wrapping_add(one.addend as usize));
    }
    // In a packed table the addend stands in the word itself. A word that is already an address in
    // the module has been relocated.
    let add = |word: usize| if module.holds(word) { word } else { module.bias.wrapping_add(word) };
    each_relr(table(module, DT_RELR, DT_RELRSZ), &mut |offset| change(offset, &add));
    Some(copies)
}

/// Calls `visit` with each offset in a packed table of relative relocations. An even entry is an
/// offset; an odd entry is a bitmap of the 63 words behind the last word.
fn each_relr(entries: &[u64], visit: &mut dyn FnMut(u64)) {
    let mut next = 0u64;
    for &entry in entries {
        if entry & 1 == 0 {
            visit(entry);
            next = entry.wrapping_add(8);
        } else {
            for bit in (1..64u64).filter(|bit| entry >> bit & 1 != 0) {
                visit(next.wrapping_add((bit - 1) * 8));
            }
            next = next.wrapping_add(63 * 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::modules::each;

    #[test]
    fn words_that_the_loader_has_relocated_stay_as_they_are() {
        let (mut all, mut words) = (0, 0);
        each(&mut |module| {
            let copies = relocated_data(&module).expect("memory");
            let relative = with_addends(&module).filter(|one| one.kind() == RELATIVE).map(|one| one.offset);
            let mut offsets: Vec<_> = relative.collect();
            each_relr(table(&module, DT_RELR, DT_RELRSZ), &mut |offset| offsets.push(offset));
            for address in offsets.into_iter().map(|offset| module.bias + offset as usize) {
                let copy = copies
                    .iter()
                    .find_map(|(start, bytes)| bytes.get(address.checked_sub(*start)?..)?.first_chunk::<8>());
                let Some(copy) = copy else { continue };
                // SAFETY: the word is in a segment that is mapped and readable.
                let is = unsafe { (address as *const usize).read_unaligned() };
                all += 1;
                // Words that the program has changed since are its own.
                words += usize::from(usize::from_le_bytes(*copy) == is);
            }
            true
        });
        assert!(all > 1000 && words * 10 >= all * 9, "{words} of {all}");
    }

    #[test]
    fn a_packed_table_means_what_its_bits_say() {
        let mut seen = Vec::new();
        each_relr(&[0x1000, 0b1011, 1, 0b101, 0x3000, 0b11], &mut |offset| seen.push(offset));
        let second = 0x1008 + 2 * 63 * 8;
        assert_eq!(seen, [0x1000, 0x1008, 0x1018, second + 8, 0x3000, 0x3008]);
    }
}
