//! How the driver draws records (`engines/ycsb.h`), and how small a value may be.

/// The shortest value, in bytes: both of its ends tell where it comes from (`LEDGER_VALUE_MIN` in
/// `engines/ledger.h`).
pub const VALUE_MIN: usize = 48;

/// How records are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each as often as any other.
    Uniform,
    /// Few of them often.
    Zipfian,
    /// The records that were inserted last.
    Latest,
}

impl Kind {
    /// Every kind, and its name on the command line.
    pub const ALL: [(&'static str, Kind); 3] =
        [("uniform", Kind::Uniform), ("zipfian", Kind::Zipfian), ("latest", Kind::Latest)];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}
