//! The versions that are compared on unequal cores: which locks, and with which target.

use crate::engine::{Cores, Rival, Start};
use std::path::Path;

/// The reference.
pub const GLIBC: &str = "glibc";
/// The same without the little threads.
pub(super) const ALONE: &str = "glibc, big alone";
/// The lock that takes targets.
pub(super) const ASL: &str = "asl";

/// The locks that a program gets, and their target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub name: String,
    pub locks: Locks,
    pub slo_ns: Option<u64>,
}

/// Where locks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Locks {
    /// `manx run --lock`
    Manx(String),
    /// A competitor's library
    Rival(Rival),
}

impl Version {
    pub(super) fn unmarked(name: &str, lock: &str) -> Version {
        Version { name: name.into(), locks: Locks::Manx(lock.into()), slo_ns: None }
    }

    pub(super) fn rival(rival: &Rival) -> Version {
        Version { name: rival.name.clone(), locks: Locks::Rival(rival.clone()), slo_ns: None }
    }

    /// The same locks with a target of this name.
    pub(super) fn marked(&self, name: &str, slo_ns: u64) -> Version {
        Version { name: format!("{}, {name}", self.name), slo_ns: Some(slo_ns), ..self.clone() }
    }

    /// Whether the locks are the C library's.
    pub(super) fn is_plain(&self) -> bool {
        self.locks == Locks::Manx(GLIBC.into())
    }

    /// Whether the locks are Manx's or the C library's.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self.locks, Locks::Manx(_))
    }

    /// How a program is started for it.
    pub(super) fn start<'a>(&'a self, manx: &'a Path, cores: Cores) -> Start<'a> {
        match &self.locks {
            Locks::Manx(lock) => Start::Unequal(manx, lock, cores),
            Locks::Rival(rival) => Start::UnequalRival(manx, rival, cores),
        }
    }
}

/// Whether a version of this name is [`ASL`] with a target.
pub(super) fn is_asl_with_a_target(name: &str) -> bool {
    name.strip_prefix(ASL).is_some_and(|rest| rest.starts_with(", "))
}

/// The name of the target that is the tail of a version.
pub(super) fn at_the_tail_of(version: &str) -> String {
    format!("as {version}")
}
