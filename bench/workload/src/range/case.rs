//! The names of the cases of `manx bench range`, as results and targets know them.

use report::sheet::size;

pub(crate) const SINGLE: &str = "single, lock and unlock";
pub(crate) const W1: &str = "w1";
pub(crate) const W2: &str = "w2";
/// The same as the thesis' author ran them: shuffled ranges, dealt to the threads.
pub(crate) const W1_SHUFFLED: &str = "w1 shuffled";
pub(crate) const W2_SHUFFLED: &str = "w2 shuffled";
pub(crate) const SHARD: &str = "shard, all within 16 KiB";
pub(crate) const KEYS: &str = "keys, strings and integers";
/// The same, without any work between lock and unlock.
pub(crate) const KEYS_BARE: &str = "keys, lock and unlock";
pub(crate) const OVERLAP: &str = "overlap";
pub(crate) const CONTENDED: &str = "contended, 8 threads, 31 % overlap";
pub(crate) const SHARED: &str = "shared";
pub(crate) const WIDTHS: &str = "widths, 8 threads and the whole space";
pub(crate) const MEMORY: &str = "memory";
pub(crate) const MEMORY_LASTING: &str = "memory, 8 threads for long";
/// The prefixes of the names of all cases of a part.
pub(crate) const BLOB: &str = "blob";
pub(crate) const FILE: &str = "file";
pub(crate) const COUNTERS: &str = "counters";
/// Within reads of objects.
pub(crate) const COUNTERS_BLOB: &str = "counters of reads";
/// The size of the thesis' records, in bytes.
pub(crate) const THESIS: usize = 1 << 20;

/// The name of a case with `threads` threads.
pub(crate) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The name of a case in which skip lists are of different heights.
pub(crate) fn heights(workload: &str) -> String {
    format!("heights, {workload}")
}

/// The name of a case in which `percent` of a hundred pairs overlap.
pub(crate) fn overlap(percent: u32) -> String {
    format!("{OVERLAP}, {percent} %")
}

/// The name of a case in which `percent` of a hundred requests read.
pub(crate) fn shared(percent: u32) -> String {
    format!("{SHARED}, {percent} % read")
}

/// The name of a case with objects of `record_bytes` bytes.
pub(crate) fn blob(record_bytes: usize) -> String {
    format!("{BLOB}, {}", size(record_bytes as f64))
}
