//! The parts of the experiment, as the user names them.

crate::parts::parts! {
    /// One thread that locks and unlocks and does nothing else.
    Single = "single" by single,
    /// A range at a time, each thread its own slice.
    W1 = "w1" by w1,
    /// Sixteen ranges at a time, each thread its own slice.
    W2 = "w2" by w2,
    /// The slices of all threads within 16 KiB.
    Shard = "shard" by shard,
    /// Strings instead of integers.
    Keys = "keys" by keys,
    /// Eight threads at seven kilobytes.
    Contended = "contended" by contended,
    /// Ranges of many widths, and now and then the whole space.
    Widths = "widths" by widths,
    /// What a lock occupies, and what is left behind by its use.
    Memory = "memory" by memory,
    /// W1 and W2 with skip lists of more and more levels.
    Heights = "heights" by heights,
    /// More and more requests that overlap others'.
    Overlap = "overlap" by overlap,
    /// Some threads only read.
    Shared = "shared" by shared,
    /// Large objects, each shown in one piece in an area that all share.
    Blob = "blob" by blob,
    /// Writes to one file.
    File = "file" by file,
    /// Cycles, instructions and misses.
    Counters = "counters" by counters,
    /// Throughput under contention, over threads, holds, overlap and access.
    Grid = "grid" by grid,
}
