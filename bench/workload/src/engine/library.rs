//! The WiredTiger that an engine is linked with, and the repaired one that it is compared with.
//!
//! | named by the user | as it is | repaired |
//! | --- | --- | --- |
//! | none, and `cargo xtask setup wiredtiger` has built both | `original` | `repaired-adaptive` |
//! | none | the machine's own | none |
//! | `--library` | that one | none |
//! | `--fixed` | the machine's own | that one |
//! | both | that one | that one |
//!
//! Libraries that were built are compared with each other only, never with one of another version.

use super::compiler::Compiler;
use crate::error::{Error, reason};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The header that must fit the library.
const HEADER: &str = "wiredtiger.h";
/// Where it is looked for, from the library's folder on: beside it, in a build folder, in a prefix.
const PLACES: [&str; 4] = [".", "include", "../include", "../../include"];

/// The library's file, the folder that `cargo xtask setup wiredtiger` fills below the target
/// folder, and its folders of the two versions.
const FILE: &str = "libwiredtiger.so";
const BUILT: &str = "wiredtiger";
const ORIGINAL: &str = "original";
const REPAIRED: &str = "repaired-adaptive";

/// The choice of the WiredTiger that is measured.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Another `libwiredtiger.so` than the machine's own
    pub library: Option<PathBuf>,
    /// A library whose source was repaired
    pub fixed: Option<PathBuf>,
    /// The folder of the header that belongs to both
    pub include: Option<PathBuf>,
    /// The folder with libraries that were built for this
    pub built: Option<PathBuf>,
}

/// The two that are compared.
#[derive(Debug)]
pub struct Pair {
    /// As it is; `None` is the machine's own
    pub as_is: Option<Library>,
    /// With its source repaired, or the reason why there is none
    pub fixed: Result<Library, String>,
    /// A note for the reader
    pub note: Option<String>,
}

impl Libraries {
    /// The folder with libraries that were built beside this `manx`.
    pub fn built_beside(manx: &Path) -> Option<PathBuf> {
        Some(manx.parent()?.parent()?.join(BUILT))
    }

    /// Returns true if the user named one.
    pub fn are_named(&self) -> bool {
        self.library.is_some() || self.fixed.is_some()
    }

    /// Finds them.
    ///
    /// # Errors
    /// If one that is named is not there.
    pub fn pair(&self) -> Result<Pair, Error> {
        if !self.are_named() {
            return Ok(self.built());
        }
        let open = |path: &PathBuf| Library::new(path, self.include.as_deref());
        let as_is = self.library.as_ref().map(open).transpose()?;
        let (fixed, note) = match &self.fixed {
            Some(fixed) => (Ok(open(fixed)?), as_is.is_none().then(|| OTHER_VERSION.to_owned())),
            None => (Err("name a repaired build of the same version with --fixed".into()), None),
        };
        Ok(Pair { as_is, fixed, note })
    }

    /// Those that were built.
    fn built(&self) -> Pair {
        let open = |name: &str| Library::new(&self.built.as_ref()?.join(name).join(FILE), None).ok();
        match (open(ORIGINAL), open(REPAIRED)) {
            (Some(as_is), Some(fixed)) => {
                let folder = self.built.as_deref().unwrap_or(Path::new(BUILT)).display();
                let note = format!("WiredTiger: {ORIGINAL} and {REPAIRED} of {folder}");
                Pair { as_is: Some(as_is), fixed: Ok(fixed), note: Some(note) }
            }
            _ => Pair { as_is: None, fixed: Err("run cargo xtask setup wiredtiger".into()), note: None },
        }
    }
}

const OTHER_VERSION: &str = "--fixed without --library: the two are compared with the machine's own WiredTiger, which may be of another version";

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

/// Compiles the shim by which `manx-mongod` uses `library`, or the machine's own WiredTiger.
///
/// # Errors
/// As [`Compiler::library`].
pub fn shim(compiler: &Compiler, library: Option<&Library>) -> Result<PathBuf, Error> {
    const SOURCE: &str = "wiredtiger_shim.c";
    match library {
        Some(library) => compiler.library(SOURCE, &library.arguments(), &library.salt()),
        None => compiler.library(SOURCE, &["-lwiredtiger".into()], ""),
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

    #[test]
    fn what_was_built_is_compared_with_each_other_only() {
        let folder = tempfile::tempdir().unwrap();
        let manx = folder.path().join("release/manx");
        let built = Libraries::built_beside(&manx);
        assert_eq!(built.as_deref(), Some(&*folder.path().join("wiredtiger")));
        let none = Libraries { built, ..Libraries::default() };
        let put = |name: &str| {
            let folder = folder.path().join("wiredtiger").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(FILE), "").unwrap();
            fs::write(folder.join(HEADER), "").unwrap();
            folder.join(FILE)
        };

        let missing = none.pair().unwrap();
        assert!(missing.as_is.is_none() && missing.note.is_none());
        assert!(missing.fixed.unwrap_err().contains("cargo xtask setup wiredtiger"));
        let repaired = put(REPAIRED);
        assert!(none.pair().unwrap().fixed.is_err(), "there is none of its version to compare it with");
        let original = put(ORIGINAL);
        let found = none.pair().unwrap();
        assert_eq!(
            (found.as_is.unwrap().path, found.fixed.unwrap().path),
            (original.clone(), repaired.clone())
        );
        assert!(found.note.unwrap().contains(REPAIRED));

        let named = Libraries { library: Some(original.clone()), ..none.clone() };
        let found = named.pair().unwrap();
        assert_eq!(found.as_is.unwrap().path, original);
        assert!(found.fixed.unwrap_err().contains("--fixed"));
        let named = Libraries { fixed: Some(repaired.clone()), ..none };
        let found = named.pair().unwrap();
        assert!(found.as_is.is_none() && found.note.unwrap().contains("another version"));
        assert_eq!(found.fixed.unwrap().path, repaired);
        let wrong = Libraries { fixed: Some(folder.path().join("no-such.so")), ..named };
        assert!(matches!(wrong.pair(), Err(Error::Request { .. })));
    }
}
