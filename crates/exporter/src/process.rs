//! What `/proc` says of one process, read as cheaply as it can be.
//!
//! | what | how | cost |
//! | --- | --- | --- |
//! | CPU time of all its threads | the clock of the process | 0.4 µs |
//! | run-queue delay | `task/TID/schedstat` of each thread | 1 µs a thread if it is open, 6 µs otherwise |
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
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
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

/// The second number of a `schedstat`: for how long the thread waited, in nanoseconds.
fn delay_ns(file: &File) -> Option<u64> {
    let mut room = [0; 96];
    let bytes = file.read_at(&mut room, 0).ok()?;
    str::from_utf8(&room[..bytes]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The threads of a process, whose files stay open as long as there is room for descriptors.
///
/// The folder's number of links tells whether there are more threads or fewer, and the file of a
/// thread that has ended cannot be read. So the list is read again only when it has changed.
#[derive(Debug, Default)]
pub struct Threads {
    folder: Option<File>,
    open: Vec<(u32, File)>,
}

impl Threads {
    /// Reads the delays of all threads. `room` is the number of descriptors that are left.
    ///
    /// ```
    /// use exporter::process::Threads;
    ///
    /// let (mut threads, mut room) = (Threads::default(), 100);
    /// assert!(threads.read(std::process::id(), &mut room).threads() >= 1 && room < 100);
    /// threads.close(&mut room);
    /// assert_eq!(room, 100);
    /// ```
    pub fn read(&mut self, pid: u32, room: &mut usize) -> Delays {
        self.read_open().unwrap_or_else(|| self.list(pid, room))
    }

    /// Reads the files that are open, if they are still those of all threads.
    fn read_open(&self) -> Option<Delays> {
        /// The folder itself, and the one above it.
        const LINKS: u64 = 2;
        let links = self.folder.as_ref()?.metadata().ok()?.nlink();
        if links != self.open.len() as u64 + LINKS {
            return None;
        }
        let all = self.open.iter().map(|(tid, file)| Some((*tid, delay_ns(file)?)));
        all.collect::<Option<_>>().map(Delays)
    }

    /// Lists the threads, and keeps their files open if there is room.
    fn list(&mut self, pid: u32, room: &mut usize) -> Delays {
        self.close(room);
        let path = format!("/proc/{pid}/task");
        let Ok(tasks) = std::fs::read_dir(&path) else { return Delays::default() };
        let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        let mut tids: Vec<u32> = tids.collect();
        tids.sort_unstable();
        let stays_open = tids.len() < *room;
        let mut delays = Vec::with_capacity(tids.len());
        for tid in tids {
            let Ok(file) = File::open(format!("{path}/{tid}/schedstat")) else { continue };
            delays.extend(delay_ns(&file).map(|delay_ns| (tid, delay_ns)));
            if stays_open {
                self.open.push((tid, file));
            }
        }
        self.folder = stays_open.then(|| File::open(&path).ok()).flatten();
        *room -= self.descriptors();
        Delays(delays)
    }

    /// Closes the files.
    pub fn close(&mut self, room: &mut usize) {
        *room += self.descriptors();
        (self.folder, self.open) = (None, Vec::new());
    }

    fn descriptors(&self) -> usize {
        self.open.len() + usize::from(self.folder.is_some())
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
    fn new_threads_are_found_and_their_ends_too() {
        use std::sync::Barrier;
        for room_at_first in [0, 1000] {
            let (mut threads, mut room) = (Threads::default(), room_at_first);
            let pid = std::process::id();
            let own = |delays: &Delays, tid: u32| delays.0.iter().any(|(known, _)| *known == tid);
            threads.read(pid, &mut room);
            let (begun, may_end) = (Barrier::new(2), Barrier::new(2));
            let tid = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    begun.wait();
                    may_end.wait();
                    platform::thread::id()
                });
                begun.wait();
                // Other tests have threads too, so numbers say little: the list tells.
                let with_other = threads.read(pid, &mut room);
                may_end.wait();
                let tid = other.join().expect("its number");
                assert!(own(&with_other, tid), "{with_other:?}");
                tid
            });
            testing::until("the thread is gone", || !own(&threads.read(pid, &mut room), tid));
            threads.close(&mut room);
            assert_eq!(room, room_at_first);
        }
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
