//! Turning the engines' C sources into programs, on demand, with the machine's C compiler, and
//! some, in C and C++, into libraries that are loaded at run time.
//!
//! The sources are part of this crate. What comes of one is kept in the user's cache, in a folder
//! named by a hash of everything that went into it, so that a second run starts at once and a
//! changed source or library is compiled anew. It is written under another name and renamed, so
//! that two runs at a time do no harm.

use super::package;
use crate::error::{Error, reason};
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! sources {
    ($($folder:literal: $($name:literal)+;)+) => {
        &[$($(($name, include_str!(concat!("../../../", $folder, "/", $name)))),+),+]
    };
}

/// The sources, by file name.
const SOURCES: &[(&str, &str)] = sources! {
    "engines":
        "options.h" "histogram.h" "classes.h" "random.h" "engine.h" "records.h" "ledger.h" "home.h" "ycsb.h"
        "log_structured.h" "sqlite_calls.h" "wiredtiger_calls.h" "rocksdb_calls.h" "lmdb_calls.h"
        "sqlite_mix.c" "sqlite.c" "leveldb.c" "rocksdb.c" "kyoto.c" "lmdb.c" "wiredtiger.c" "snapshot.c"
        "wiredtiger_shim.c"
        "ycsb_wiredtiger.c" "ycsb_lmdb.c" "ycsb_rocksdb.c" "ycsb_sqlite.c"
        "bounded.c" "plain.c" "ping_pong.c" "spinlock.c" "threads.c" "startup.c"
        "rocksdb_ranges.cpp" "rocksdb_locktree.cpp";
    "workload/victims":
        "victim.h" "gang.c" "spin_lock.c" "graph_ggml.c" "ring_mpi.c" "product_openblas.c";
};

/// As many lines of a compiler's complaint are shown.
const WORDS: usize = 10;

/// A C compiler, one for C++, and where what they make is kept.
#[derive(Clone, Debug)]
pub struct Compiler {
    command: OsString,
    cpp: OsString,
    cache: PathBuf,
}

impl Compiler {
    /// `$CC`, or `cc`, and `$CXX`, or `c++`; programs go to `$XDG_CACHE_HOME/manx/engines`.
    ///
    /// # Errors
    /// If there is no folder for the programs.
    pub fn from_environment() -> Result<Compiler, Error> {
        let named = |name: &str, default: &str| {
            std::env::var_os(name).filter(|named| !named.is_empty()).unwrap_or_else(|| default.into())
        };
        Ok(Compiler {
            cpp: named("CXX", "c++"),
            ..Compiler::new(named("CC", "cc"), cache()?.join("manx/engines"))
        })
    }

    /// A given compiler and a given folder; `c++` for C++.
    pub fn new(command: impl Into<OsString>, cache: impl Into<PathBuf>) -> Compiler {
        Compiler { command: command.into(), cpp: "c++".into(), cache: cache.into() }
    }

    /// Another compiler for C.
    pub fn with_c(self, command: impl Into<OsString>) -> Compiler {
        Compiler { command: command.into(), ..self }
    }

    /// The program that `name`.c makes with further `arguments`; `salt` is hashed too (a library's
    /// state).
    ///
    /// # Errors
    /// If there is no compiler, or it refuses; [`Error::Missing`] with its words.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn program(&self, name: &str, arguments: &[OsString], salt: &str) -> Result<PathBuf, Error> {
        let source = format!("{name}.c");
        assert!(SOURCES.iter().any(|(file, _)| *file == source), "there is no {source}");
        let folder = self.cache.join(self.hash(&source, arguments, salt));
        let program = folder.join(name);
        if program.exists() && starts(&program).is_ok() {
            return Ok(program);
        }
        self.compile(&source, name, arguments, &folder)?;
        starts(&program).map_err(|words| {
            Error::missing(
                format!("{}: was compiled but does not start: {}", program.display(), words.trim()),
                "the library must lie beside its name as its DT_SONAME says (libwiredtiger.so.11.3.1, for example)",
            )
        })?;
        Ok(program)
    }

    /// The shared library that a source, `NAME.c` or `NAME.cpp`, makes with further `arguments`;
    /// `salt` as in [`Compiler::program`]. Whether it can be loaded is not tried.
    ///
    /// # Errors
    /// If there is no compiler, or it refuses; [`Error::Missing`] with its words.
    ///
    /// # Panics
    /// If there is no such source.
    pub fn library(&self, source: &str, arguments: &[OsString], salt: &str) -> Result<PathBuf, Error> {
        assert!(SOURCES.iter().any(|(file, _)| *file == source), "there is no {source}");
        let folder = self.cache.join(self.hash(source, arguments, salt));
        let name = Path::new(source).with_extension("so");
        let library = folder.join(&name);
        if !library.exists() {
            let shared = ["-shared".into(), "-fPIC".into()];
            self.compile(source, &name.to_string_lossy(), &[&shared, arguments].concat(), &folder)?;
        }
        Ok(library)
    }

    /// The compiler for a source.
    fn command_of(&self, source: &str) -> &OsString {
        if source.ends_with(".cpp") { &self.cpp } else { &self.command }
    }

    fn compile(&self, source: &str, name: &str, arguments: &[OsString], folder: &Path) -> Result<(), Error> {
        let compiler = self.command_of(source);
        let (flags, help_without): (&[&str], _) = match source.ends_with(".cpp") {
            false => (
                &["-std=gnu11"],
                "the engines are compiled on this machine: install a C compiler (Debian: apt-get install gcc libc6-dev), or name one in CC",
            ),
            true => (
                &["-std=c++17"],
                "it is compiled on this machine: install a C++ compiler (Debian: apt-get install g++), or name one in CXX",
            ),
        };
        let mut command = Command::new(compiler);
        command
            .env("LC_ALL", "C")
            .args(flags)
            .args(["-O2", "-pthread", source, "-o", name])
            .args(arguments)
            .args(["-lm", "-ldl"]);
        make(command, SOURCES, name, folder)?
            .map_err(|error| {
                Error::missing(format!("{}: {}", compiler.to_string_lossy(), reason(&error)), help_without)
            })?
            .map_err(|words| {
                let what = format!("{source}: cannot be compiled\n{}", first_lines(&words));
                Error::missing(what, help(&words))
            })
    }

    fn hash(&self, source: &str, arguments: &[OsString], salt: &str) -> String {
        let used = SOURCES.iter().filter(|(file, _)| file.ends_with(".h") || *file == source);
        folder_of(&(used.collect::<Vec<_>>(), self.command_of(source), arguments, salt))
    }
}

/// The name of the folder for what is made of these.
pub(crate) fn folder_of(of: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Runs a compiler on these sources, in a folder of its own, and moves the file that it makes to
/// `folder`. Returns the error by which it was not started; else its words, if it refused.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn make(
    mut command: Command,
    sources: &[(&str, &str)],
    name: &str,
    folder: &Path,
) -> Result<std::io::Result<Result<(), String>>, Error> {
    let unwritable = |error: std::io::Error| {
        Error::request(
            format!("{}: {}", folder.display(), reason(&error)),
            "programs are compiled there; XDG_CACHE_HOME names another folder",
        )
    };
    fs::create_dir_all(folder).map_err(unwritable)?;
    let scratch = tempfile::tempdir_in(folder).map_err(unwritable)?;
    for (file, text) in sources {
        fs::write(scratch.path().join(file), text).map_err(unwritable)?;
    }
    let output = match command.current_dir(scratch.path()).output() {
        Ok(output) => output,
        Err(error) => return Ok(Err(error)),
    };
    if !output.status.success() {
        return Ok(Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned())));
    }
    fs::rename(scratch.path().join(name), folder.join(name)).map_err(unwritable)?;
    Ok(Ok(Ok(())))
}

/// What is shown of a compiler's words.
pub(crate) fn first_lines(words: &str) -> String {
    words.lines().take(WORDS).collect::<Vec<_>>().join("\n")
}

/// What to do, as the compiler's words tell.
fn help(words: &str) -> String {
    if let Some(package) = package::missing(words) {
        return match package.flag {
            "-lwiredtiger" => format!(
                "{}, or name a library with --library, or choose --engine snapshot, which needs none",
                package.remedy()
            ),
            _ => package.remedy(),
        };
    }
    let missing = |name: &str| words.lines().any(|line| line.contains(name));
    if missing(".h: No such file") || missing("no include path") {
        "headers of the C library are missing: install them (Debian: apt-get install libc6-dev)".into()
    } else {
        "what is compiled needs GNU C11, or C++17, as gcc and clang know them; CC and CXX name others".into()
    }
}

/// Asks a program for its help, which shows whether the loader finds its libraries.
fn starts(program: &Path) -> Result<(), String> {
    match Command::new(program).arg("--help").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The user's cache; without a home, a folder in the place for temporary files that is the user's
/// own.
pub(crate) fn cache() -> Result<PathBuf, Error> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache"))) {
        return Ok(folder);
    }
    // SAFETY: geteuid cannot fail and touches no memory.
    let user = unsafe { libc::geteuid() };
    let folder = std::env::temp_dir().join(format!("manx-{user}"));
    let made = fs::DirBuilder::new().mode(0o700).create(&folder);
    match fs::symlink_metadata(&folder) {
        Ok(found) if found.is_dir() && found.uid() == user && found.mode() & 0o022 == 0 => Ok(folder),
        _ => Err(Error::request(
            format!("{}: {}", folder.display(), made.err().map_or("not yours".into(), |e| e.to_string())),
            "set XDG_CACHE_HOME to a folder for compiled engines",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_says_what_to_install() {
        let folder = tempfile::tempdir().unwrap();
        let error = Compiler::new("/no/such/cc", folder.path()).program("plain", &[], "").unwrap_err();
        assert!(matches!(error, Error::Missing { .. }));
        let text = error.to_string();
        assert!(text.contains("/no/such/cc") && text.contains("install gcc"), "{text}");
    }

    #[test]
    fn a_missing_compiler_for_cpp_says_so_too() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler { cpp: "/no/such/c++".into(), ..Compiler::new("cc", folder.path()) };
        let error = compiler.library("rocksdb_ranges.cpp", &[], "").unwrap_err();
        assert!(matches!(error, Error::Missing { .. }));
        let text = error.to_string();
        assert!(text.contains("/no/such/c++") && text.contains("install g++"), "{text}");
    }

    #[test]
    fn a_missing_library_names_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["-DX", "-nostdinc"].map(OsString::from);
        let error = Compiler::new("cc", folder.path()).program("plain", &arguments, "").unwrap_err();
        assert!(error.to_string().contains("libc6-dev"), "{error}");
        assert!(help("fatal error: wiredtiger.h: No such file").contains("libwiredtiger-dev"));
        assert!(help("ld: cannot find -lwiredtiger").contains("libwiredtiger-dev"));
        // Any other refusal of that source is not taken for a missing package.
        assert!(!help("wiredtiger.c:9:1: error: unknown type name").contains("libwiredtiger-dev"));
    }

    #[test]
    fn a_compiled_program_is_found_again_and_a_changed_one_is_compiled_anew() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::new("cc", folder.path());
        let first = compiler.program("threads", &[], "").unwrap();
        let made = fs::metadata(&first).unwrap().modified().unwrap();
        let again = compiler.program("threads", &[], "").unwrap();
        assert_eq!((&again, fs::metadata(&again).unwrap().modified().unwrap()), (&first, made));
        assert_ne!(compiler.program("threads", &[], "other").unwrap(), first);
        // Nothing but the program stays.
        assert_eq!(fs::read_dir(first.parent().unwrap()).unwrap().count(), 1);
    }
}
