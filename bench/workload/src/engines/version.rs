//! The versions that are compared: as it is, under `manx run`, under its other locks, with a
//! rival's library.

use crate::engine::{AS_IS, GUARDED, Rival, Start};
use crate::turns::Entrant;
use std::path::Path;

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
    Rival(Rival),
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

    /// With a competitor's library in the place of the C library's locks.
    pub fn rival(rival: Rival) -> Version {
        Version { name: rival.name.clone(), how: How::Rival(rival) }
    }

    /// How an engine is started for it.
    pub fn start<'a>(&'a self, manx: &'a Path) -> Start<'a> {
        match &self.how {
            How::AsIs => Start::AsIs,
            How::Manx => Start::Guarded(manx),
            How::Lock(mode) => Start::Locked(manx, mode),
            How::Rival(rival) => Start::Preloaded(rival),
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
    fn a_rival_is_neither_ours_nor_the_plain_program() {
        let rival = Rival { name: "mcs".into(), library: "/x.so".into(), lock: None };
        let version = Version::rival(rival.clone());
        assert_eq!(
            (version.name.as_str(), version.start(Path::new("manx"))),
            ("mcs", Start::Preloaded(&rival))
        );
        assert!(!version.is_ours() && !version.is_plain());
    }

    #[test]
    fn locks_are_asked_of_manx() {
        let manx = Path::new("/y/manx");
        assert_eq!(Version::lock("fifo").start(manx), Start::Locked(manx, "fifo"));
        let starts: Vec<bool> = Version::always().iter().map(Version::is_plain).collect();
        assert_eq!(starts, [true, false]);
    }
}
