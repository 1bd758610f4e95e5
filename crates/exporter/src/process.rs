//! What `/proc` says of one process, read as cheaply as it can be.
//!
//! | what | how | cost |
//! | --- | --- | --- |
//! | CPU time of all its threads | the clock of the process | 0.4 µs |
//! | run-queue delay | `task/TID/schedstat` of each thread | 4 µs a thread |
//! | the program | the link `exe` | 2 µs |
//! | its mappings | `maps` | 1 µs a mapping |
//!
//! A process that used no CPU time since the last look has not run: then its delays and its counts
//! are as they were, and nothing else is read.

use preload_abi::live::name;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// No list of mappings is longer.
const MAPS_BYTES_MAX: u64 = 32 << 20;

/// What runs in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Runs {
    /// A program of this name; the path of its file, if it may be read.
    Program(String, Option<PathBuf>),
    /// A thread of the kernel, or nothing any more.
    Nothing,
}

/// What runs in the process.
///
/// ```
/// use exporter::process::{Runs, runs};
///
/// assert!(matches!(runs(std::process::id()), Runs::Program(name, Some(_)) if !name.is_empty()));
/// assert_eq!(runs(4_194_305), Runs::Nothing, "the kernel gives no such number");
/// ```
pub fn runs(pid: u32) -> Runs {
    const DELETED: &[u8] = b" (deleted)";
    if let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) {
        let bytes = path.as_os_str().as_bytes();
        let path = PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(DELETED).unwrap_or(bytes)));
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        return Runs::Program(name, Some(path));
    }
    // Another user's: its short name may be read, and a thread of the kernel has no command line.
    let has_program = read(&format!("/proc/{pid}/cmdline"), 1).is_some_and(|bytes| !bytes.is_empty());
    match read(&format!("/proc/{pid}/comm"), 64) {
        Some(comm) if has_program => {
            let comm = name(comm.trim_ascii_end());
            Runs::Program(String::from_utf8_lossy(comm).into_owned(), None)
        }
        _ => Runs::Nothing,
    }
}

/// The mappings of a process; `None` if they may not be read.
pub fn maps(pid: u32) -> Option<Vec<u8>> {
    read(&format!("/proc/{pid}/maps"), MAPS_BYTES_MAX)
}

/// The groups of a process, as the kernel writes them.
pub fn groups(pid: u32) -> Option<String> {
    let text = read(&format!("/proc/{pid}/cgroup"), 1 << 16)?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Its folder.
pub fn folder(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// For how long each thread of a process was runnable and waited for a CPU, by thread id, in
/// ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays(Vec<(u32, u64)>);

impl Delays {
    /// Reads those of all threads of the process, in nanoseconds.
    ///
    /// ```
    /// use exporter::process::Delays;
    ///
    /// assert!(Delays::of(std::process::id()).threads() >= 1);
    /// ```
    pub fn of(pid: u32) -> Delays {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Delays::default() };
        let mut delays: Vec<(u32, u64)> = tasks
            .flatten()
            .filter_map(|task| {
                let name = task.file_name();
                let tid = name.to_str()?;
                let mut room = [0; 96];
                let mut file = File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
                let bytes = file.read(&mut room).ok()?;
                let text = str::from_utf8(&room[..bytes]).ok()?;
                let delay_ns = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
                Some((tid.parse().ok()?, delay_ns))
            })
            .collect();
        delays.sort_unstable();
        Delays(delays)
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.0.len()
    }

    /// What has come since an earlier look, in nanoseconds. A thread that is new counts from its
    /// beginning.
    pub fn since(&self, before: &Delays) -> u64 {
        let mut earlier = before.0.iter().copied().peekable();
        let more = self.0.iter().map(|&(tid, delay_ns)| {
            while earlier.next_if(|(other, _)| *other < tid).is_some() {}
            let (_, before_ns) = earlier.next_if(|(other, _)| *other == tid).unwrap_or((tid, 0));
            delay_ns.saturating_sub(before_ns)
        });
        more.sum()
    }
}

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let texts: Vec<String> = tasks.flatten().filter_map(of_task).collect();
    texts.iter().flat_map(|text| text.split_ascii_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

fn read(path: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ended_takes_nothing_away_and_a_new_one_counts() {
        let before = Delays(vec![(3, 100), (5, 50), (9, 7)]);
        let now = Delays(vec![(3, 120), (7, 4), (9, 6)]);
        assert_eq!(now.since(&before), 24);
        assert_eq!(now.since(&Delays::default()), 130);
        assert_eq!(Delays::default().since(&now), 0);
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let found = children(std::process::id()).contains(&child.id());
        let name = runs(child.id());
        child.kill().expect("it runs");
        child.wait().expect("ended");
        assert!(found && matches!(name, Runs::Program(..)));
    }
}
