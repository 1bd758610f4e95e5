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
}
