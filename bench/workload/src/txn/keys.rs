//! How the driver draws records (`engines/ycsb.h`).

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
    /// All of them, and by which the user names them.
    pub const ALL: [(&'static str, Kind); 3] =
        [("uniform", Kind::Uniform), ("zipfian", Kind::Zipfian), ("latest", Kind::Latest)];

    /// By which the user names it.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}
