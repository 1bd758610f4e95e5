//! Competitors: libraries that take the place of the C library's locks in a program that is linked
//! with pthreads.
//!
//! One of them is built with the benches: the package `interposer` puts any lock of [`LOCKS`] into
//! the place of the program's mutexes. Which one, [`VARIABLE`] tells it.

use crate::error::{Error, reason};
use std::path::{Path, PathBuf};

/// The environment variable by which the package `interposer` is told its lock.
pub const VARIABLE: &str = "MANX_INTERPOSED_LOCK";

/// The locks that the package `interposer` has.
pub const LOCKS: [&str; 9] =
    ["mcs", "tas", "ttas", "ticket", "shfl-pb10", "mcs-park", "libasl", "libasl-blocking", "asl-mcs"];

/// Those of them that take latency targets.
const TARGETED: [&str; 3] = ["libasl", "libasl-blocking", "asl-mcs"];

/// The file of the package `interposer`.
pub const LIBRARY: &str = "libmanx_interposer.so";

/// A library to preload, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// What tables call it
    pub name: String,
    /// Its file
    pub library: PathBuf,
    /// The lock that it is to use, if it has several
    pub lock: Option<&'static str>,
}

impl Rival {
    /// Reads competitors: `NAME=PATH` is one, and names of [`LOCKS`] with commas between are any
    /// number, from the library in `folder`.
    ///
    /// # Errors
    /// If the text is of neither form, or there is no such file.
    pub fn parse(text: &str, folder: &Path) -> Result<Vec<Rival>, Error> {
        let unfound = |path: &str, why: &str| {
            Error::request(
                format!("--rival {text}: {path}: {why}"),
                "name the shared library that is to be preloaded",
            )
        };
        let Some((name, path)) = text.split_once('=') else { return Rival::interposed(text, folder) };
        if name.is_empty() || path.is_empty() {
            return Err(form(text));
        }
        // The loader splits LD_PRELOAD at both.
        if path.contains([':', ' ']) {
            return Err(unfound(path, "a colon or a space cannot be preloaded"));
        }
        match std::fs::metadata(path) {
            Ok(file) if file.is_file() => {}
            Ok(_) => return Err(unfound(path, "not a file")),
            Err(error) => return Err(unfound(path, &reason(&error))),
        }
        let library = std::path::absolute(path).map_err(|error| unfound(path, &reason(&error)))?;
        Ok(vec![Rival { name: name.into(), library, lock: None }])
    }

    fn interposed(text: &str, folder: &Path) -> Result<Vec<Rival>, Error> {
        let library = folder.join(LIBRARY);
        let rival = |name: &str| {
            let lock = LOCKS.into_iter().find(|lock| *lock == name).ok_or_else(|| form(text))?;
            Ok(Rival { name: lock.into(), library: library.clone(), lock: Some(lock) })
        };
        let rivals: Vec<Rival> = text.split(',').map(rival).collect::<Result<_, Error>>()?;
        if !library.is_file() {
            return Err(Error::missing(
                format!("--rival {text}: {}: no such file", library.display()),
                "the locks of the baselines are a library: build it with `cargo build --release -p interposer`",
            ));
        }
        Ok(rivals)
    }

    /// Whether it takes the targets of epochs.
    pub fn takes_targets(&self) -> bool {
        self.lock.is_some_and(|lock| TARGETED.contains(&lock))
    }

    /// The variable to set for it, and its value.
    pub fn variable(&self) -> Option<(&'static str, &'static str)> {
        self.lock.map(|lock| (VARIABLE, lock))
    }
}

fn form(text: &str) -> Error {
    Error::request(
        format!("--rival {text}: neither NAME=PATH nor a lock of the baselines"),
        format!("for example mcs=/opt/libmcs.so, or some of {}", LOCKS.join(",")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_a_name_and_a_file_or_some_locks_of_the_baselines() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("x.so");
        std::fs::write(&library, "").unwrap();
        let named = Rival::parse(&format!("mcs={}", library.display()), Path::new("/none")).unwrap();
        assert_eq!(named, [Rival { name: "mcs".into(), library, lock: None }]);
        assert!(!named[0].takes_targets() && named[0].variable().is_none());
        let refused = |text: &str| Rival::parse(text, folder.path()).unwrap_err().to_string();
        assert!(refused("mcs").contains("cargo build"), "not built");
        for malformed in ["=x.so", "mcs=", "mcs,", "", "mcs,futex", "mcs, tas"] {
            assert!(refused(malformed).contains("NAME=PATH"), "{malformed}");
        }
        assert!(refused("mcs=/no/such/x.so").contains("no such file"));
        assert!(refused(&format!("mcs={}", folder.path().display())).contains("not a file"));
        assert!(refused("mcs=a:b").contains("colon"));
        std::fs::write(folder.path().join(LIBRARY), "").unwrap();
        let some = Rival::parse("tas,asl-mcs", folder.path()).unwrap();
        let read: Vec<_> = some.iter().map(|rival| (rival.name.as_str(), rival.takes_targets())).collect();
        assert_eq!(read, [("tas", false), ("asl-mcs", true)]);
        assert_eq!(some[0].variable(), Some((VARIABLE, "tas")));
    }
}
