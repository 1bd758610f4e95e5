//! The names of the cases of `manx bench range`, as results and targets know them.

use report::sheet::size;

pub(super) const SINGLE: &str = "single, lock and unlock";
pub(super) const W1: &str = "w1";
pub(super) const W2: &str = "w2";
pub(super) const SHARD: &str = "shard, all within 16 KiB";
pub(super) const KEYS: &str = "keys, strings and integers";
/// The same, without any work between lock and unlock.
pub(super) const KEYS_BARE: &str = "keys, lock and unlock";
pub(super) const OVERLAP: &str = "overlap";
pub(super) const CONTENDED: &str = "contended, 8 threads, 31 % overlap";
pub(super) const SHARED: &str = "shared";
pub(super) const WIDTHS: &str = "widths, 8 threads and the whole space";
pub(super) const MEMORY: &str = "memory";
pub(super) const MEMORY_LASTING: &str = "memory, 8 threads for long";
/// The prefixes of the names of all cases of a part.
pub(super) const BLOB: &str = "blob";
pub(super) const FILE: &str = "file";
pub(super) const COUNTERS: &str = "counters";
/// The size of the thesis' records, in bytes.
pub(super) const THESIS: usize = 1 << 20;

/// The name of a case with `threads` threads.
pub(super) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The name of a case in which skip lists are of different heights.
pub(super) fn heights(workload: &str) -> String {
    format!("heights, {workload}")
}

/// The name of a case in which `percent` of a hundred pairs overlap.
pub(super) fn overlap(percent: u32) -> String {
    format!("{OVERLAP}, {percent} %")
}

/// The name of a case in which `percent` of a hundred requests read.
pub(super) fn shared(percent: u32) -> String {
    format!("{SHARED}, {percent} % read")
}

/// The name of a case with objects of `record_bytes` bytes.
pub(super) fn blob(record_bytes: usize) -> String {
    format!("{BLOB}, {}", size(record_bytes as f64))
}
