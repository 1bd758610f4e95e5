//! The busy-wait loops of a program's files: what `spinloop` needs to know, read from ELF.
//!
//! `spinloop` takes bytes by address. A file has segments, an unwind table, a table of imports and
//! names. [`Code`] reads them once and gives them to the finder. `manx run --dry-run` asks for all
//! loops of a file, `manx doctor` for those near an address at which threads were seen.
//!
//! Nothing is certain about a file that somebody else wrote: a table that does not make sense is
//! left out, and a file whose segments do not make sense is refused.

mod symbols;

pub use symbols::{Function, Symbols};

use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ObjectSymbolTable as _, RelocationTarget};
use spinloop::{Blocks, Finder, Machine, Module, OVERLAP, Seed, Segments};
use std::ops::Range;

/// The code of an ELF file.
#[derive(Debug)]
pub struct Code<'a> {
    data: &'a [u8],
    machine: Machine,
    /// The bytes of each loaded segment, by its address.
    segments: Vec<(u64, &'a [u8])>,
    /// Where each loaded segment lies in the file.
    offsets: Vec<Range<u64>>,
    text: Vec<Range<u64>>,
    unwind: Option<u64>,
}

impl<'a> Code<'a> {
    /// Reads the headers; `None` if they cannot be understood, or are of another machine than
    /// x86-64 and aarch64.
    ///
    /// ```
    /// let me = std::fs::read(std::env::current_exe()?)?;
    /// let code = elf_loops::Code::parse(&me).expect("a program");
    /// assert!(code.text_bytes() > 0);
    /// assert!(elf_loops::Code::parse(b"#!/bin/sh").is_none());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn parse(data: &'a [u8]) -> Option<Code<'a>> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let machine = match header.e_machine(endian) {
            elf::EM_X86_64 => Machine::X86_64,
            elf::EM_AARCH64 => Machine::Aarch64,
            _ => return None,
        };
        let mut code = Code { data, machine, segments: vec![], offsets: vec![], text: vec![], unwind: None };
        for segment in header.program_headers(endian, data).ok()? {
            let address = segment.p_vaddr(endian);
            match segment.p_type(endian) {
                elf::PT_LOAD => {
                    let bytes = segment.data(endian, data).ok()?;
                    let offset = segment.p_offset(endian);
                    code.segments.push((address, bytes));
                    code.offsets.push(offset..offset.checked_add(bytes.len() as u64)?);
                    if segment.p_flags(endian).contains(elf::PF_X) {
                        code.text.push(address..address.checked_add(bytes.len() as u64)?);
                    }
                }
                elf::PT_GNU_EH_FRAME => code.unwind = Some(address),
                _ => {}
            }
        }
        Some(code)
    }

    /// How many bytes of code there are.
    pub fn text_bytes(&self) -> usize {
        self.text.iter().map(|range| (range.end - range.start) as usize).sum()
    }

    /// The address that the file itself gives to the byte at `offset` of the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let at = self.offsets.iter().position(|range| range.contains(&offset))?;
        self.segments[at].0.checked_add(offset - self.offsets[at].start)
    }

    /// All seeds, in the order in which the library asks: one kind after the other.
    pub fn seeds(&self) -> Vec<(Seed, u64)> {
        let mut all: Vec<(Seed, u64)> = Vec::new();
        for range in &self.text {
            self.seeds_of(range.clone(), &mut all);
        }
        all.sort_unstable();
        all
    }

    /// The seeds in the code around an address.
    pub fn seeds_near(&self, address: u64, distance: u64) -> Vec<(Seed, u64)> {
        let mut all = Vec::new();
        if let Some(text) = self.text.iter().find(|text| text.contains(&address)) {
            // A row of NOPs at the very start of a part is not seen: so it begins a little earlier.
            let before = distance.saturating_add(OVERLAP as u64);
            let start = address.saturating_sub(before).max(text.start);
            let end = address.saturating_add(distance).min(text.end);
            // Instructions of AArch64 begin at multiples of four.
            self.seeds_of(start & !3..end, &mut all);
            all.sort_unstable();
        }
        all
    }

    fn seeds_of(&self, range: Range<u64>, all: &mut Vec<(Seed, u64)>) {
        let bytes = self.bytes(&range);
        let address = |at: usize| range.start + at as u64;
        match self.machine {
            Machine::X86_64 => {
                all.extend(spinloop::seeds(bytes).into_iter().map(|(at, seed)| (seed, address(at))));
            }
            Machine::Aarch64 => {
                all.extend(spinloop::aarch64::candidates(bytes).map(|at| (Seed::Pause, address(at))));
            }
        }
    }

    fn bytes(&self, range: &Range<u64>) -> &'a [u8] {
        let part = |(start, bytes): &(u64, &'a [u8])| {
            let from = usize::try_from(range.start.checked_sub(*start)?).ok()?;
            let to = usize::try_from(range.end.checked_sub(*start)?).ok()?;
            bytes.get(from..to)
        };
        self.segments.iter().find_map(part).unwrap_or(&[])
    }

    /// The bytes of the file's segments, by their addresses.
    pub fn image(&self) -> Segments<'_> {
        Segments(&self.segments)
    }

    /// Gives `act` the finder of this code.
    pub fn find<T>(&self, act: impl FnOnce(&mut Finder<'_>) -> T) -> T {
        let image = self.image();
        let module = Module::new(self.machine, &image, &self.text, self.unwind);
        act(&mut Finder::with_imports(module, self.blocking()))
    }

    /// The words of the file's table of imports that lead to functions that block, or to its own.
    fn blocking(&self) -> Vec<(u64, Blocks)> {
        let Ok(file) = object::File::parse(self.data) else { return Vec::new() };
        let Some(relocations) = file.dynamic_relocations() else { return Vec::new() };
        let Some(symbols) = file.dynamic_symbol_table() else { return Vec::new() };
        let blocks = |target| match target {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.symbol_by_index(index).ok()?;
                match symbol.is_definition() {
                    true => Some(Blocks::Own(symbol.address())),
                    false => spinloop::blocking(symbol.name().ok()?),
                }
            }
            _ => None,
        };
        relocations.filter_map(|(slot, one)| Some((slot, blocks(one.target())?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_seeds_of_the_whole_that_lie_in_it() {
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let code = Code::parse(&me).unwrap();
        let all = code.seeds();
        let Some((_, address)) = all.get(all.len() / 2) else { return };
        let near = code.seeds_near(*address, 256);
        let inside = |(_, at): &&(Seed, u64)| at.abs_diff(*address) < 128;
        let expected: Vec<_> = all.iter().filter(inside).collect();
        assert!(expected.iter().all(|seed| near.contains(seed)), "{expected:?} {near:?}");
        assert!(code.seeds_near(u64::MAX, 256).is_empty());
    }

    #[test]
    fn an_offset_in_the_file_has_the_address_of_its_segment() {
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let code = Code::parse(&me).unwrap();
        for (range, (address, bytes)) in code.offsets.iter().zip(&code.segments) {
            assert_eq!(range.end - range.start, bytes.len() as u64);
            if !bytes.is_empty() {
                assert_eq!(code.address_of(range.end - 1), Some(address + bytes.len() as u64 - 1));
            }
        }
        assert_eq!(code.address_of(u64::MAX), None);
    }
}
