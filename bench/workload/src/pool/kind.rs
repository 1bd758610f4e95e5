//! The kinds of pools that are compared.

use serde::{Deserialize, Serialize};

/// A kind of pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A thread for each CPU at one channel, whatever else runs there.
    Ignorant,
    /// The same with the CPUs divided by the number of processes: the choice of a user that knew
    /// that number.
    Optimal,
    /// The paper's friendlypool: this process' part of the CPU time of all, looked at each tick.
    FriendlyPool,
    /// Manx's, as it comes.
    Manx,
    /// Rayon's.
    Rayon,
    /// Tokio's.
    Tokio,
    /// Rayon's; its workers follow the CPU budget.
    RayonGate,
    /// Tokio's, the same.
    TokioGate,
    /// Go's own scheduler, in a program of its own.
    Go,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Kind] = &[
        Kind::Ignorant,
        Kind::Optimal,
        Kind::FriendlyPool,
        Kind::Manx,
        Kind::Rayon,
        Kind::Tokio,
        Kind::RayonGate,
        Kind::TokioGate,
        Kind::Go,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Ignorant => "ignorant",
            Kind::Optimal => "optimal",
            Kind::FriendlyPool => "friendlypool",
            Kind::Manx => "manx",
            Kind::Rayon => "rayon",
            Kind::Tokio => "tokio",
            Kind::RayonGate => "rayon+gate",
            Kind::TokioGate => "tokio+gate",
            Kind::Go => "go",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_listed_where_it_is_declared_under_a_name_of_its_own() {
        for (at, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
            assert!(Kind::ALL[..at].iter().all(|other| other.name() != kind.name()));
        }
        assert_eq!(Kind::ALL.last(), Some(&Kind::Go), "the last one");
    }
}
