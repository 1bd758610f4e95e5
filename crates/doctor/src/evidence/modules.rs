//! What lies where in a process: from an address to a file and the place in it.
//!
//! `/proc/PID/maps` names files as the process sees them. A process in a container has another
//! root, and a file may have been replaced since it was mapped. So a file is opened below
//! `/proc/PID/root`, and is taken only if it is the same file (inode) as the mapped one; otherwise
//! by `/proc/PID/map_files`, which needs more rights. The root is opened while the process is
//! there, because the files are read after the watch, when it may have ended.

use procfs::process::{MMPermissions, MMapPath, Process};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the kernel adds to the path of a file that has been removed.
const DELETED: &str = " (deleted)";

/// Libraries in which a lock is taken, and never for themselves.
const OF_THE_C_LIBRARY: [&str; 5] = ["libc.so", "libc-2", "libpthread", "ld-linux", "libmanx_preload"];

/// A part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address
    pub start: u64,
    /// The address behind it
    pub end: u64,
    /// Where in the file it begins
    pub offset: u64,
    /// Whether it is code
    pub executable: bool,
    /// The file, as the process sees it
    pub file: Option<PathBuf>,
    /// The file's inode
    pub inode: u64,
    /// What it is, in words, if it is no file
    pub what: String,
}

impl Mapping {
    /// The file's name without its folders, or what it is.
    pub fn name(&self) -> String {
        match &self.file {
            Some(file) => {
                let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
                name.trim_end_matches(DELETED).to_owned()
            }
            None => self.what.clone(),
        }
    }

    /// Whether it is of the C library.
    pub fn is_of_the_c_library(&self) -> bool {
        let name = self.name();
        OF_THE_C_LIBRARY.iter().any(|library| name.starts_with(library))
    }
}

/// The memory of a process.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    pid: i32,
    /// Its root directory; `None` if this user may not see it.
    root: Option<Arc<File>>,
    /// In ascending order.
    mappings: Vec<Mapping>,
}

/// The beginnings of the names of the files that start threads, and what sets how many: the number
/// stands behind it.
pub const RUNTIMES: [(&str, &str); 11] = [
    ("libgomp", "OMP_NUM_THREADS="),
    ("libiomp", "OMP_NUM_THREADS="),
    ("libomp", "OMP_NUM_THREADS="),
    ("libopenblas", "OPENBLAS_NUM_THREADS="),
    ("libscipy_openblas", "OPENBLAS_NUM_THREADS="),
    ("libblis", "BLIS_NUM_THREADS="),
    ("libmkl", "MKL_NUM_THREADS="),
    ("libjvm", "JDK_JAVA_OPTIONS=-XX:ActiveProcessorCount="),
    ("libnode", "UV_THREADPOOL_SIZE="),
    ("redis-server", "--io-threads "),
    ("beam.smp", "ERL_FLAGS=+S "),
];

impl Modules {
    /// Reads the mappings of a process; none if this process may not read them.
    pub fn of(process: &Process) -> Modules {
        let maps = process.maps().map(|maps| maps.0).unwrap_or_default();
        let mapping = |map: procfs::process::MemoryMap| {
            let (file, what) = match &map.pathname {
                MMapPath::Path(path) => (Some(path.clone()), "a file"),
                MMapPath::Heap => (None, "the heap"),
                MMapPath::Stack | MMapPath::TStack(_) => (None, "a stack"),
                MMapPath::Vdso | MMapPath::Vsyscall => (None, "the kernel's vdso"),
                _ if map.perms.contains(MMPermissions::EXECUTE) => (None, "generated code"),
                _ => (None, "memory without a name"),
            };
            Mapping {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                executable: map.perms.contains(MMPermissions::EXECUTE),
                file,
                inode: map.inode,
                what: what.to_owned(),
            }
        };
        let mut mappings: Vec<Mapping> = maps.into_iter().map(mapping).collect();
        mappings.sort_by_key(|mapping| mapping.start);
        let root = process.open_relative("root").ok().map(Arc::new);
        Modules { pid: process.pid(), root, mappings }
    }

    /// Whether no mapping is known.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// The mapping that contains this address.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let next = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..next].last().filter(|mapping| address < mapping.end)
    }

    /// Where there is code of files, in ascending order.
    pub fn code(&self) -> Vec<Range<u64>> {
        let code = self.mappings.iter().filter(|mapping| mapping.executable && mapping.file.is_some());
        code.map(|mapping| mapping.start..mapping.end).collect()
    }

    /// … without the C library's.
    pub fn code_of_callers(&self) -> Vec<Range<u64>> {
        let code = self.mappings.iter().filter(|mapping| mapping.executable && mapping.file.is_some());
        code.filter(|mapping| !mapping.is_of_the_c_library()).map(|it| it.start..it.end).collect()
    }

    /// What lies at an address, in words.
    pub fn describe(&self, address: u64) -> String {
        match self.at(address) {
            Some(mapping) if mapping.file.is_some() => format!("the data of {}", mapping.name()),
            // The data that a program sets to zero lies behind its file's mapping, without a name.
            Some(mapping) => self.before(mapping).unwrap_or_else(|| mapping.what.clone()),
            None => "memory that is not mapped any more".into(),
        }
    }

    /// The words for memory without a name directly behind the mapping of a file: that file's data.
    fn before(&self, mapping: &Mapping) -> Option<String> {
        let at = self.mappings.iter().position(|other| other == mapping)?;
        let before = self.mappings.get(at.checked_sub(1)?)?;
        let touches = before.end == mapping.start && before.file.is_some() && before.inode != 0;
        (touches && mapping.what == "memory without a name").then(|| format!("the data of {}", before.name()))
    }

    /// A path by which this process can read the file of a mapping; `None` if there is no such
    /// path, or if the file there is another one now.
    pub fn readable(&self, mapping: &Mapping) -> Option<PathBuf> {
        let file = mapping.file.as_ref()?;
        let is_the_file = |path: &Path| {
            let found = std::fs::metadata(path).is_ok_and(|found| found.ino() == mapping.inode);
            found && File::open(path).is_ok()
        };
        let below = file.strip_prefix("/").unwrap_or(file);
        let inside = self.root.iter().map(|root| format!("/proc/self/fd/{}", root.as_raw_fd()));
        let inside = inside.map(|root| PathBuf::from(root).join(below));
        let mapped = format!("/proc/{}/map_files/{:x}-{:x}", self.pid, mapping.start, mapping.end);
        inside.chain([PathBuf::from(mapped)]).find(|path| is_the_file(path))
    }

    /// The names of all files that are mapped as code, each once.
    pub fn files(&self) -> Vec<String> {
        let code = self.mappings.iter().filter(|mapping| mapping.executable && mapping.file.is_some());
        let mut names: Vec<String> = code.map(Mapping::name).collect();
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file: Option<&str>, inode: u64, what: &str) -> Mapping {
        Mapping {
            start,
            end,
            offset: 0,
            executable: false,
            file: file.map(PathBuf::from),
            inode,
            what: what.to_owned(),
        }
    }

    #[test]
    fn an_address_is_described() {
        let nameless = "memory without a name";
        let mappings = vec![
            mapping(0x1000, 0x2000, Some("/bin/app (deleted)"), 7, "a file"),
            mapping(0x2000, 0x3000, None, 0, nameless),
            mapping(0x5000, 0x6000, None, 0, "the heap"),
            mapping(0x8000, 0x9000, None, 0, nameless),
        ];
        let modules = Modules { mappings, ..Modules::default() };
        for (address, words) in [
            (0x1fff, "the data of app"),
            (0x2000, "the data of app"),
            (0x5004, "the heap"),
            (0x8000, nameless),
            (0x4000, "memory that is not mapped any more"),
            (0x10, "memory that is not mapped any more"),
        ] {
            assert_eq!(modules.describe(address), words, "{address:#x}");
        }
    }

    #[test]
    fn the_files_of_a_process_that_has_ended_can_still_be_read() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id().cast_signed();
        let is_sleep = |modules: &Modules| modules.files().iter().any(|name| name.starts_with("libc"));
        // Until it has replaced this program, and its libraries are there.
        let modules = loop {
            let modules = Modules::of(&Process::new(pid).unwrap());
            if is_sleep(&modules)
                && std::fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"sleep")
            {
                break modules;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        child.kill().unwrap();
        child.wait().unwrap();
        let code = modules.mappings.iter().filter(|mapping| mapping.executable && mapping.file.is_some());
        assert!(
            code.clone().count() >= 2 && code.clone().all(|it| modules.readable(it).is_some()),
            "{modules:?}"
        );
    }

    #[test]
    fn this_programs_own_code_is_found_and_readable() {
        let modules = Modules::of(&Process::myself().unwrap());
        let here = (Modules::of as fn(&Process) -> Modules) as usize as u64;
        let mapping = modules.at(here).expect("mapped");
        assert!(mapping.executable);
        let path = modules.readable(mapping).expect("readable");
        let own = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().ino(), own.ino());
        assert!(modules.files().contains(&mapping.name()));
        assert!(modules.code().iter().any(|code| code.contains(&here)));
        let callers = modules.code_of_callers();
        assert!(callers.iter().any(|code| code.contains(&here)) && callers.len() < modules.code().len());
    }
}
