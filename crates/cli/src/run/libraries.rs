//! Which libraries a program will load when it starts, found as the loader finds them.
//!
//! The order is ld.so(8)'s: `DT_RPATH`, `LD_LIBRARY_PATH`, `DT_RUNPATH`, then the system's folders.
//! Its cache is not read, but the configuration that the cache is made from is. What a program
//! opens later with `dlopen` cannot be known before it runs.

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSymbol as _, ReadCache, ReadRef as _};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder below `lib` where Debian keeps this machine's libraries.
const TRIPLET: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };
/// The loader's configuration.
const CONFIGURATION: &str = "/etc/ld.so.conf";
/// How deep the configuration may include itself.
const INCLUDE_DEPTH_MAX: usize = 8;

/// What a program loads.
#[derive(Debug, Default)]
pub struct Libraries {
    /// The files: the program first, then its libraries in the order in which they are asked for.
    pub files: Vec<PathBuf>,
    /// The names of those that were not found.
    pub missing: Vec<String>,
}

/// Finds what `program` loads. `preloaded` is its `LD_PRELOAD`.
pub fn find(program: &Path, elf: &Elf, preloaded: &OsStr) -> Libraries {
    let system = system_folders();
    let library_path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited: Vec<PathBuf> = elf.rpath.iter().map(|folder| expand(folder, program)).collect();
    let mut libraries = Libraries { files: vec![program.to_owned()], missing: Vec::new() };
    let mut met = BTreeSet::new();
    let mut waiting: VecDeque<(String, PathBuf, Elf)> = VecDeque::new();
    let enqueue = |waiting: &mut VecDeque<_>, names: &[String], path: &Path, elf: &Elf| {
        waiting.extend(names.iter().map(|name| (name.clone(), path.to_owned(), elf.clone())));
    };
    let first: Vec<String> = preloaded
        .as_bytes()
        .split(|b| b" :".contains(b))
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect();
    enqueue(&mut waiting, &first, program, elf);
    enqueue(&mut waiting, &elf.needed, program, elf);

    while let Some((name, requester, requesters_elf)) = waiting.pop_front() {
        let file_name = name.rsplit('/').next().unwrap_or(&name).to_owned();
        if !met.insert(file_name) {
            continue;
        }
        let own = |folders: &[String]| -> Vec<PathBuf> {
            folders.iter().map(|folder| expand(folder, &requester)).collect()
        };
        let folders: Vec<PathBuf> = if name.contains('/') {
            vec![PathBuf::new()]
        } else {
            let before = if requesters_elf.runpath.is_empty() { own(&requesters_elf.rpath) } else { vec![] };
            let from_environment =
                std::env::split_paths(&library_path).filter(|folder| !folder.as_os_str().is_empty());
            before
                .into_iter()
                .chain(inherited.iter().cloned())
                .chain(from_environment)
                .chain(own(&requesters_elf.runpath))
                .chain(system.iter().cloned())
                .collect()
        };
        let found = folders.iter().map(|folder| folder.join(expand(&name, &requester))).find_map(|file| {
            let elf = Elf::read(&file).ok()??;
            (elf.machine == Machine::Ours).then_some((file, elf))
        });
        match found {
            Some((file, elf)) => {
                enqueue(&mut waiting, &elf.needed, &file, &elf);
                libraries.files.push(file);
            }
            None => libraries.missing.push(name),
        }
    }
    libraries
}

/// Replaces the loader's tokens in `text`, a part of the file `of`.
fn expand(text: &str, of: &Path) -> PathBuf {
    let folder = of.canonicalize().unwrap_or_else(|_| of.to_owned());
    let origin = folder.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let lib =
        if Path::new("/lib").join(TRIPLET).is_dir() { format!("lib/{TRIPLET}") } else { "lib64".into() };
    let platform = TRIPLET.split('-').next().unwrap_or_default();
    let mut expanded = text.to_owned();
    for (token, value) in [("ORIGIN", &*origin), ("LIB", &*lib), ("PLATFORM", platform)] {
        expanded = expanded.replace(&format!("${{{token}}}"), value).replace(&format!("${token}"), value);
    }
    expanded.into()
}

fn system_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    configured(Path::new(CONFIGURATION), 0, &mut folders);
    for base in ["/lib", "/usr/lib"] {
        folders.push(Path::new(base).join(TRIPLET));
        folders.push(format!("{base}64").into());
        folders.push(base.into());
    }
    folders
}

/// Adds the folders that the loader's configuration names.
fn configured(file: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    let Ok(text) = std::fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            Some(patterns) if depth < INCLUDE_DEPTH_MAX => {
                for pattern in patterns.split_whitespace() {
                    let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern);
                    matching(&pattern).iter().for_each(|file| configured(file, depth + 1, folders));
                }
            }
            Some(_) => {}
            None if line.starts_with('/') => folders.push(line.into()),
            None => {}
        }
    }
}

/// The files that `pattern` names, in order; its last part may hold one `*`, as everybody's does.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let Some(name) = pattern.file_name().and_then(OsStr::to_str) else { return Vec::new() };
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_owned()] };
    let folder = pattern.parent().unwrap_or(Path::new("/"));
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let fits = |name: &OsString| {
        let name = name.as_bytes();
        name.len() >= start.len() + end.len()
            && name.starts_with(start.as_bytes())
            && name.ends_with(end.as_bytes())
    };
    let mut files: Vec<PathBuf> =
        entries.flatten().filter(|entry| fits(&entry.file_name())).map(|entry| entry.path()).collect();
    files.sort();
    files
}

// What an ELF file says about itself: for which machine it is, its loader, and what it needs.
//
// Only the pages that are asked for are read, so that a program of hundreds of megabytes costs no
// more than `true`.

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
    fn the_c_library_is_found() {
        let me = std::env::current_exe().expect("this program's path");
        let elf = Elf::read(&me).expect("readable").expect("an ELF file");
        let found = find(&me, &elf, OsStr::new(""));
        assert_eq!(found.files[0], me);
        let names: Vec<_> = found.files.iter().filter_map(|file| file.file_name()?.to_str()).collect();
        assert!(names.contains(&"libc.so.6") && found.missing.is_empty(), "{found:?}");
    }

    #[test]
    fn what_is_not_there_is_named_and_nothing_is_met_twice() {
        let me = std::env::current_exe().expect("this program's path");
        let mut elf = Elf::read(&me).expect("readable").expect("an ELF file");
        elf.needed = vec!["libc.so.6".into(), "libnonsense.so.1".into(), "libc.so.6".into()];
        let found = find(&me, &elf, OsStr::new("/nonsense/other.so libnonsense.so.1"));
        assert_eq!(found.missing, ["/nonsense/other.so", "libnonsense.so.1"]);
        assert_eq!(found.files.iter().filter(|file| file.ends_with("libc.so.6")).count(), 1);
    }

    #[test]
    fn tokens_are_expanded() {
        let expanded = |text| expand(text, Path::new("/opt/app/bin/program"));
        assert_eq!(expanded("$ORIGIN/../lib"), Path::new("/opt/app/bin/../lib"));
        assert_eq!(expanded("${ORIGIN}/x"), Path::new("/opt/app/bin/x"));
        assert_eq!(expanded("/plain"), Path::new("/plain"));
    }

    #[test]
    fn the_configuration_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        std::fs::create_dir(folder.path().join("d")).expect("made");
        write("conf", "# first\ninclude d/*.conf\n/opt/lib # last\nincluded\n");
        write("d/b.conf", "/b\ninclude ../conf\n");
        write("d/a.conf", "/a\n");
        write("d/a.other", "/other\n");
        let mut folders = Vec::new();
        configured(&folder.path().join("conf"), INCLUDE_DEPTH_MAX - 1, &mut folders);
        assert_eq!(folders, ["/a", "/b", "/opt/lib"].map(PathBuf::from));
    }

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
