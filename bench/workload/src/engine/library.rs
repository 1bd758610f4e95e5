//! Which WiredTiger an engine is linked with: the machine's own, or a library that the user names.

use super::compiler::Compiler;
use crate::error::{Error, reason};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The header that must fit the library.
const HEADER: &str = "wiredtiger.h";
/// Where it is looked for, from the library's folder on: beside it, in a build folder, in a prefix.
const PLACES: [&str; 4] = [".", "include", "../include", "../../include"];

/// A shared library and its header's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    path: PathBuf,
    include: PathBuf,
}

impl Library {
    /// The library at `path`; its header is in `include`, or is looked for near it.
    ///
    /// # Errors
    /// If either cannot be found.
    pub fn new(path: &Path, include: Option<&Path>) -> Result<Library, Error> {
        let unfound = |error: std::io::Error| {
            Error::request(format!("{}: {}", path.display(), reason(&error)), "name a libwiredtiger.so")
        };
        let path = std::path::absolute(path).map_err(unfound)?;
        if !std::fs::metadata(&path).map_err(unfound)?.is_file() {
            return Err(Error::request(format!("{}: not a file", path.display()), "name a libwiredtiger.so"));
        }
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        let include = match include {
            Some(include) => Some(include.to_owned()).filter(|folder| folder.join(HEADER).is_file()),
            None => {
                PLACES.iter().map(|place| folder.join(place)).find(|folder| folder.join(HEADER).is_file())
            }
        };
        let Some(include) = include.and_then(|include| std::path::absolute(include).ok()) else {
            return Err(Error::request(
                format!(
                    "{}: its {HEADER} is not beside it, nor in include, ../include or ../../include",
                    path.display()
                ),
                "name the folder of the header that belongs to it with --include",
            ));
        };
        Ok(Library { path, include })
    }

    /// What the compiler is told.
    fn arguments(&self) -> Vec<OsString> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let joined = |flag: &str, path: &Path| {
            let mut argument = OsString::from(flag);
            argument.push(path);
            argument
        };
        vec![
            joined("-I", &self.include),
            self.path.clone().into(),
            // The old kind of tag: it comes before LD_LIBRARY_PATH, so what was named is what runs.
            "-Wl,--disable-new-dtags".into(),
            joined("-Wl,-rpath,", folder),
        ]
    }

    /// Changes whenever the library's file does.
    fn salt(&self) -> String {
        match std::fs::metadata(&self.path) {
            Ok(file) => format!("{}:{}:{}", file.len(), file.mtime(), file.mtime_nsec()),
            Err(_) => String::new(),
        }
    }
}

/// Compiles the WiredTiger engine against `library`, or against the machine's own.
///
/// # Errors
/// As [`Compiler::program`].
pub fn wiredtiger(compiler: &Compiler, library: Option<&Library>) -> Result<PathBuf, Error> {
    driver(compiler, "wiredtiger", library)
}

/// Compiles a driver of WiredTiger, by its source without `.c`, against `library`, or against the
/// machine's own.
///
/// # Errors
/// As [`Compiler::program`].
pub fn driver(compiler: &Compiler, source: &str, library: Option<&Library>) -> Result<PathBuf, Error> {
    match library {
        Some(library) => compiler.program(source, &library.arguments(), &library.salt()),
        None => compiler.program(source, &["-lwiredtiger".into()], ""),
    }
}

/// A library that engines are linked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// What it is called
    pub library: &'static str,
    /// Its header
    pub header: &'static str,
    /// What the linker is told
    pub flag: &'static str,
    /// The Debian package that has both
    pub name: &'static str,
}

const fn package(
    library: &'static str,
    header: &'static str,
    flag: &'static str,
    name: &'static str,
) -> Package {
    Package { library, header, flag, name }
}

/// All of them.
pub const PACKAGES: [Package; 7] = [
    package("WiredTiger", "wiredtiger.h", "-lwiredtiger", "libwiredtiger-dev"),
    package("SQLite", "sqlite3.h", "-lsqlite3", "libsqlite3-dev"),
    package("LevelDB", "leveldb/c.h", "-lleveldb", "libleveldb-dev"),
    package("Kyoto Cabinet", "kclangc.h", "-lkyotocabinet", "libkyotocabinet-dev"),
    package("LMDB", "lmdb.h", "-llmdb", "liblmdb-dev"),
    package("RocksDB", "rocksdb/c.h", "-lrocksdb", "librocksdb-dev"),
    package("OpenBLAS", "cblas.h", "-lopenblas", "libopenblas-pthread-dev"),
];

/// Returns the package whose absence `words`, of the compiler or the linker, complain about.
pub fn missing(words: &str) -> Option<&'static Package> {
    let complains = |package: &&Package| {
        // A header in a folder of the library's own stands for all that are there.
        let header = match package.header.split_once('/') {
            Some((folder, _)) => format!("{folder}/"),
            None => format!("{}: No such file", package.header),
        };
        // The header by its whole name: `db.h` is not `lmdb.h`.
        let flag = |word: &str| word.trim_matches([':', '\'', '"', ',']) == package.flag;
        words.lines().any(|line| {
            let named = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '/');
            (line.contains(": No such file") && line.find(&header).is_some_and(named))
                || (line.contains("cannot find") && line.split_whitespace().any(flag))
        })
    };
    PACKAGES.iter().find(complains)
}

/// The package that `flag` stands for.
///
/// # Panics
/// If there is none: flags are written in this crate alone.
pub fn of_flag(flag: &str) -> &'static Package {
    PACKAGES.iter().find(|package| package.flag == flag).expect("every engine's library has a package")
}

impl Package {
    /// What to do without it.
    pub fn remedy(&self) -> String {
        format!(
            "{}'s header and library are missing: install them (Debian: apt-get install {})",
            self.library, self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_header_is_found_near_the_library_or_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::create_dir_all(root.join("include")).unwrap();
        fs::create_dir_all(root.join("elsewhere")).unwrap();
        let library = root.join("lib/libwiredtiger.so");

        let error = Library::new(&library, None).unwrap_err();
        assert!(error.to_string().contains("libwiredtiger.so"), "{error}");
        fs::write(&library, "").unwrap();
        let error = Library::new(&library, None).unwrap_err();
        assert!(error.to_string().contains("--include"), "{error}");
        assert!(Library::new(root, None).unwrap_err().to_string().contains("not a file"));

        fs::write(root.join("elsewhere").join(HEADER), "").unwrap();
        assert!(Library::new(&library, Some(&root.join("elsewhere"))).is_ok());
        fs::write(root.join("include").join(HEADER), "").unwrap();
        let found = Library::new(&library, None).unwrap();
        assert!(found.include.join(HEADER).is_file());
        assert!(Library::new(&library, Some(&root.join("lib"))).is_err());
    }

    fn name(words: &str) -> Option<&'static str> {
        missing(words).map(|package| package.name)
    }

    #[test]
    fn a_header_and_a_library_name_their_package() {
        assert_eq!(
            name("leveldb.c:11:10: fatal error: leveldb/c.h: No such file or directory"),
            Some("libleveldb-dev")
        );
        assert_eq!(name("rocksdb.c:13:10: fatal error: rocksdb/c.h: No such file"), Some("librocksdb-dev"));
        assert_eq!(
            name("x.cpp:20:10: fatal error: rocksdb/utilities/x.h: No such file"),
            Some("librocksdb-dev")
        );
        assert_eq!(name("/usr/bin/ld: cannot find -llmdb: No such file or directory"), Some("liblmdb-dev"));
        assert_eq!(name("ld: cannot find -lkyotocabinet"), Some("libkyotocabinet-dev"));
    }

    #[test]
    fn other_complaints_name_none() {
        assert_eq!(name("sqlite.c:3:1: error: unknown type name 'x'"), None);
        assert_eq!(name("x.c:1:10: fatal error: stdio.h: No such file or directory"), None);
        assert_eq!(name("x.c:1:10: fatal error: notlmdb.h: No such file or directory"), None);
        assert_eq!(name("x.c:1:10: fatal error: notrocksdb/c.h: No such file"), None);
        assert_eq!(name("rocksdb/db.h:1:1: error: unknown type name 'x'"), None);
        assert_eq!(name("ld: cannot find -lsqlite3extra"), None);
    }
}
