//! The versions that are compared on unequal cores: which locks, and with which target.

/// The reference.
pub const GLIBC: &str = "glibc";
/// The same before all others: what targets are derived from.
pub(super) const FIRST: &str = "glibc, first";
/// The same without the little threads.
pub(super) const ALONE: &str = "glibc, big alone";
/// The lock that takes targets.
pub(super) const ASL: &str = "asl";

/// The locks that a program gets, and their target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub name: String,
    pub lock: String,
    pub slo_ns: Option<u64>,
}

impl Version {
    pub(super) fn unmarked(name: &str, lock: &str) -> Version {
        Version { name: name.into(), lock: lock.into(), slo_ns: None }
    }

    pub(super) fn marked(name: &str, slo_ns: u64) -> Version {
        Version { name: format!("{ASL}, {name}"), lock: ASL.into(), slo_ns: Some(slo_ns) }
    }
}
