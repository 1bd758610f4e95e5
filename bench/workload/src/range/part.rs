//! The parts of the experiment, as the user names them.

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// One thread that locks and unlocks and does nothing else.
    Single,
    /// A range at a time, each thread its own slice.
    W1,
    /// Sixteen ranges at a time, each thread its own slice.
    W2,
    /// W1 and W2 with skip lists of more and more levels.
    Heights,
    /// The slices of all threads within 16 KiB.
    Shard,
    /// Strings instead of integers.
    Keys,
    /// More and more requests that overlap others'.
    Overlap,
    /// Eight threads at seven kilobytes.
    Contended,
    /// Some threads only read.
    Shared,
    /// Ranges of many widths, and now and then the whole space.
    Widths,
    /// What a lock occupies, and what is left behind by its use.
    Memory,
    /// Large objects, each shown in one piece in an area that all share.
    Blob,
    /// Writes to one file.
    File,
    /// Cycles, instructions and misses.
    Counters,
    /// Throughput under contention, over threads, holds, overlap and access.
    Grid,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Part; 15] = [
        Part::Single,
        Part::W1,
        Part::W2,
        Part::Shard,
        Part::Keys,
        Part::Contended,
        Part::Widths,
        Part::Memory,
        Part::Heights,
        Part::Overlap,
        Part::Shared,
        Part::Blob,
        Part::File,
        Part::Counters,
        Part::Grid,
    ];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Single => "single",
            Part::W1 => "w1",
            Part::W2 => "w2",
            Part::Heights => "heights",
            Part::Shard => "shard",
            Part::Keys => "keys",
            Part::Overlap => "overlap",
            Part::Contended => "contended",
            Part::Shared => "shared",
            Part::Widths => "widths",
            Part::Memory => "memory",
            Part::Blob => "blob",
            Part::File => "file",
            Part::Counters => "counters",
            Part::Grid => "grid",
        }
    }
}
