//! What an ELF file says about itself: for which machine it is, its loader, and what it needs.
//!
//! Only the pages that are asked for are read, so that a program of hundreds of megabytes costs no
//! more than `true`.

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, ReadRef as _};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The machine that Manx is built for, as ELF numbers it.
const MACHINE: elf::Machine = if cfg!(target_arch = "x86_64") {
    elf::EM_X86_64
} else if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else {
    elf::EM_NONE
};

/// The symbol that the GNU C library's loader, and no other, defines.
const GLIBC_LOADER_SYMBOL: &str = "_rtld_global";

/// For which machine a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The one that Manx runs on.
    Ours,
    /// A 32-bit one.
    Bits32,
    /// Another one.
    Foreign,
}

/// What was asked of a file. Everything but `machine` is empty for another machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// For which machine it is.
    pub machine: Machine,
    /// The loader that it asks for; none for a static program and for a library.
    pub loader: Option<PathBuf>,
    /// The libraries that it needs (`DT_NEEDED`).
    pub needed: Vec<String>,
    /// Where its libraries are sought before `LD_LIBRARY_PATH` (`DT_RPATH`, if there is no
    /// `DT_RUNPATH`).
    pub rpath: Vec<String>,
    /// Where its libraries are sought behind `LD_LIBRARY_PATH` (`DT_RUNPATH`).
    pub runpath: Vec<String>,
}

impl Elf {
    /// Reads what `path` says; `None` if it is no ELF file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> io::Result<Option<Elf>> {
        let data = ReadCache::new(File::open(path)?);
        let Ok(start) = (&data).read_bytes_at(0, 20) else { return Ok(None) };
        if start[..4] != elf::ELFMAG {
            return Ok(None);
        }
        let machine = machine(start);
        let mut facts = Elf { machine, loader: None, needed: vec![], rpath: vec![], runpath: vec![] };
        if machine == Machine::Ours {
            // A file whose tables are damaged says nothing; whether it runs is for the kernel to
            // decide.
            let _ = facts.fill(&data);
        }
        Ok(Some(facts))
    }

    fn fill(&mut self, data: &ReadCache<File>) -> object::Result<()> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, data)?;
        let mut dynamic = None;
        for segment in segments {
            if let Some(loader) = segment.interpreter(endian, data)? {
                self.loader = Some(PathBuf::from(OsStr::from_bytes(loader)));
            }
            if let Some(entries) = segment.dynamic(endian, data)? {
                dynamic = Some(entries);
            }
        }
        let Some(entries) = dynamic else { return Ok(()) };
        let value =
            |tag: elf::DynamicTag| entries.iter().find(|e| e.tag(endian) == tag).map(|e| e.d_val.get(endian));
        let Some(strings) = value(elf::DT_STRTAB) else { return Ok(()) };
        let text = |entry: u64| -> Option<String> {
            let address = strings.checked_add(entry)?;
            let segment = segments.iter().find(|s| {
                s.p_type(endian) == elf::PT_LOAD
                    && (s.p_vaddr(endian)..s.p_vaddr(endian).saturating_add(s.p_filesz(endian)))
                        .contains(&address)
            })?;
            let start = (address - segment.p_vaddr(endian)).checked_add(segment.p_offset(endian))?;
            let end = segment.p_offset(endian).checked_add(segment.p_filesz(endian))?;
            let bytes = data.read_bytes_at_until(start..end, 0).ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let folders = |tag: elf::DynamicTag| -> Vec<String> {
            let list = value(tag).and_then(text).unwrap_or_default();
            list.split(':').filter(|f| !f.is_empty()).map(str::to_owned).collect()
        };
        self.needed = entries
            .iter()
            .filter(|e| e.tag(endian) == elf::DT_NEEDED)
            .filter_map(|e| text(e.d_val.get(endian)))
            .collect();
        self.runpath = folders(elf::DT_RUNPATH);
        if self.runpath.is_empty() {
            self.rpath = folders(elf::DT_RPATH);
        }
        Ok(())
    }
}

fn machine(start: &[u8]) -> Machine {
    if start[4] != elf::ELFCLASS64.0 {
        return Machine::Bits32;
    }
    let number = [start[18], start[19]];
    let number =
        if start[5] == elf::ELFDATA2MSB.0 { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    if number == MACHINE.0 { Machine::Ours } else { Machine::Foreign }
}

/// Whether `path` is the loader of the GNU C library.
pub fn is_glibc_loader(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let data = ReadCache::new(file);
    let Ok(parsed) = ElfFile64::<Endianness, _>::parse(&data) else { return false };
    parsed.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(GLIBC_LOADER_SYMBOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_program_for_this_machine() {
        let me = std::env::current_exe().expect("this program's path");
        let elf = Elf::read(&me).expect("readable").expect("an ELF file");
        assert_eq!(elf.machine, Machine::Ours);
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
        let loader = elf.loader.expect("a dynamic program");
        assert!(is_glibc_loader(&loader), "{}", loader.display());
        assert!(!is_glibc_loader(&me));
    }

    #[test]
    fn what_is_not_elf_or_damaged_is_not_taken_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        for (bytes, expected) in [
            (&b""[..], None),
            (b"\x7fELF", None),
            (b"#!/bin/sh\necho some script that is longer than that\n", None),
            (b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0", Some(Machine::Bits32)),
            (b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x15", Some(Machine::Foreign)),
        ] {
            std::fs::write(&file, bytes).expect("written");
            let machine = Elf::read(&file).expect("readable").map(|elf| elf.machine);
            assert_eq!(machine, expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_truncated_program_does_not_upset_the_reader() {
        let me = std::env::current_exe().expect("this program's path");
        let whole = std::fs::read(me).expect("readable");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        for length in [64, 65, 100, 500, 900, 4096] {
            std::fs::write(&file, &whole[..length]).expect("written");
            let elf = Elf::read(&file).expect("readable").expect("an ELF file");
            assert!(elf.machine == Machine::Ours && elf.needed.is_empty());
        }
    }
}
