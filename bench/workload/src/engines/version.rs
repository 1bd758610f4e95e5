//! The versions that are compared: as it is, under `manx run`, under its other locks, with a
//! rival's library.

use crate::engine::{AS_IS, GUARDED, Start};
use crate::error::{Error, reason};
use crate::turns::Entrant;
use std::path::{Path, PathBuf};

/// One way to start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What tables call it
    pub name: String,
    how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum How {
    AsIs,
    Manx,
    Lock(String),
    Rival(PathBuf),
}

impl Version {
    /// The two that are always compared.
    pub fn always() -> Vec<Version> {
        let version = |name: &str, how| Version { name: name.into(), how };
        vec![version(AS_IS, How::AsIs), version(GUARDED, How::Manx)]
    }

    /// Under `manx run --lock=MODE`.
    pub fn lock(mode: &str) -> Version {
        Version { name: format!("manx run --lock={mode}"), how: How::Lock(mode.into()) }
    }

    /// With another library that takes the place of the C library's locks, from `NAME=PATH`.
    ///
    /// # Errors
    /// If it is not of that form, or there is no such file.
    pub fn rival(text: &str) -> Result<Version, Error> {
        let form = || {
            Error::request(
                format!("--rival {text}: not of the form NAME=PATH"),
                "for example mcs=/opt/libmcs.so",
            )
        };
        let (name, path) = text.split_once('=').ok_or_else(form)?;
        if name.is_empty() || path.is_empty() {
            return Err(form());
        }
        let unfound = |why: &str| {
            Error::request(
                format!("--rival {text}: {path}: {why}"),
                "name the shared library that is to be preloaded",
            )
        };
        // The loader splits LD_PRELOAD at both.
        if path.contains([':', ' ']) {
            return Err(unfound("a colon or a space cannot be preloaded"));
        }
        match std::fs::metadata(path) {
            Ok(file) if file.is_file() => {}
            Ok(_) => return Err(unfound("not a file")),
            Err(error) => return Err(unfound(&reason(&error))),
        }
        let path = std::path::absolute(path).map_err(|error| unfound(&reason(&error)))?;
        Ok(Version { name: name.into(), how: How::Rival(path) })
    }

    /// How an engine is started for it.
    pub fn start<'a>(&'a self, manx: &'a Path) -> Start<'a> {
        match &self.how {
            How::AsIs => Start::AsIs,
            How::Manx => Start::Guarded(manx),
            How::Lock(mode) => Start::Locked(manx, mode),
            How::Rival(library) => Start::Preloaded(library),
        }
    }

    /// True if a failure says something about Manx, or about the program, and not about another
    /// party's library.
    pub fn is_ours(&self) -> bool {
        !matches!(self.how, How::Rival(_))
    }

    /// True for the program as it is: if that fails, there is nothing to compare with.
    pub fn is_plain(&self) -> bool {
        self.how == How::AsIs
    }
}

impl<'a> From<&'a Version> for Entrant<'a> {
    fn from(version: &'a Version) -> Entrant<'a> {
        Entrant { name: &version.name, is_plain: version.is_plain(), is_ours: version.is_ours() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_a_name_and_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("x.so");
        std::fs::write(&library, "").unwrap();
        let rival = Version::rival(&format!("mcs={}", library.display())).unwrap();
        assert_eq!(rival.name, "mcs");
        assert_eq!(rival.start(Path::new("manx")), Start::Preloaded(&library));
        assert!(!rival.is_ours() && !rival.is_plain());
        let refused = |text: String| Version::rival(&text).unwrap_err().to_string();
        assert!(refused("mcs".into()).contains("NAME=PATH"));
        assert!(refused("=x.so".into()).contains("NAME=PATH"));
        assert!(refused("mcs=/no/such/x.so".into()).contains("no such file"));
        assert!(refused(format!("mcs={}", folder.path().display())).contains("not a file"));
        assert!(refused("mcs=a:b".into()).contains("colon"));
    }

    #[test]
    fn locks_are_asked_of_manx() {
        let manx = Path::new("/y/manx");
        assert_eq!(Version::lock("fifo").start(manx), Start::Locked(manx, "fifo"));
        let starts: Vec<bool> = Version::always().iter().map(Version::is_plain).collect();
        assert_eq!(starts, [true, false]);
    }
}
