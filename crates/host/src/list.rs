//! Which processes and threads there are: the folders of `/proc` whose names are numbers.

use std::path::Path;

/// All processes, in the order of the kernel, which is ascending.
///
/// ```
/// assert!(host::list::pids().any(|pid| pid == std::process::id()));
/// ```
pub fn pids() -> impl Iterator<Item = u32> {
    numbers("/proc")
}

/// The threads of a process, in the order in which they were created.
///
/// ```
/// assert_eq!(host::list::tids(std::process::id()).next(), Some(std::process::id()));
/// ```
pub fn tids(pid: u32) -> impl Iterator<Item = u32> {
    numbers(format!("/proc/{pid}/task"))
}

fn numbers(folder: impl AsRef<Path>) -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
