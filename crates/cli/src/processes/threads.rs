//! The threads of one process: how long each ran and waited for a CPU since the pass before.
//!
//! The kernel has the run-queue delay of threads only, so that of a process is their sum. The list
//! of threads is read again when their number has changed, and from time to time, because a thread
//! may have taken another one's place.
//!
//! Invariants:
//! 1. A thread counts from the pass in which it was first seen if that was the first pass over its
//!    process, else from its beginning.
//! 2. What cannot be kept open is not read. Then `read` is less than the number of threads.

use super::kept::{Kept, Room};
use super::row;
use super::text::{Times, shown};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The list is read again after so many passes.
const LIST_EVERY: u64 = 8;
/// Names that one pass reads at most: each costs 5 µs.
const NAMES_PER_PASS: usize = 64;
/// The longest `schedstat`: three numbers of 64 bits.
const BYTES_MAX: usize = 64;

/// The threads that are known.
#[derive(Debug, Default)]
pub struct Threads {
    known: BTreeMap<u32, Thread>,
    /// How many there were, and in which pass, when the list was read
    listed: Option<(u32, u64)>,
}

#[derive(Debug)]
struct Thread {
    file: Kept,
    before: Times,
    since: Option<Times>,
    name: Option<String>,
}

/// What the threads did together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How long they ran and waited since the pass before
    pub times: Times,
    /// How many were read
    pub read: u32,
    /// Whether some ended, so that the sum lacks what they did last
    pub some_ended: bool,
}

impl Threads {
    /// Reads all of a process with `count` threads. `None` where the kernel keeps no such times.
    pub fn look(&mut self, pid: u32, count: u32, pass: u64, room: &Room) -> Option<Sum> {
        if self.listed.is_none_or(|(before, at)| before != count || pass >= at + LIST_EVERY) {
            self.list(pid, room);
            self.listed = Some((count, pass));
        }
        let mut sum = Sum::default();
        self.known.retain(|_, thread| {
            let mut text = [0; BYTES_MAX];
            let Some(now) = thread.file.read(&mut text).and_then(Times::parse) else {
                sum.some_ended = true;
                return false;
            };
            let since = now.since(&thread.before);
            (thread.before, thread.since) = (now, Some(since));
            sum.times.run_ns += since.run_ns;
            sum.times.wait_ns += since.wait_ns;
            sum.times.slices += since.slices;
            sum.read += 1;
            true
        });
        (sum.read > 0).then_some(sum)
    }

    /// Adds the threads that are new.
    fn list(&mut self, pid: u32, room: &Room) {
        let folder = PathBuf::from(format!("/proc/{pid}/task"));
        let is_first = self.listed.is_none();
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if self.known.contains_key(&tid) {
                continue;
            }
            let Some(file) = Kept::of_thread(&folder.join(format!("{tid}/schedstat")), room) else {
                continue;
            };
            let mut text = [0; BYTES_MAX];
            // Invariant 1.
            let before = match is_first {
                true => file.read(&mut text).and_then(Times::parse).unwrap_or_default(),
                false => Times::default(),
            };
            self.known.insert(tid, Thread { file, before, since: None, name: None });
        }
    }

    /// Each thread, those that ran and waited most first; with names, as far as they are read.
    pub fn rows(&mut self, pid: u32, span_ns: u64) -> Vec<row::Thread> {
        let mut threads: Vec<(u32, &mut Thread)> =
            self.known.iter_mut().map(|(tid, thread)| (*tid, thread)).collect();
        let weight = |thread: &Thread| thread.since.map_or(0, |times| times.run_ns + times.wait_ns);
        threads.sort_by_key(|(tid, thread)| (std::cmp::Reverse(weight(thread)), *tid));
        let mut names = NAMES_PER_PASS;
        let per = |ns: u64, times: f64| (span_ns > 0).then(|| ns as f64 * times / span_ns as f64);
        let row = |(tid, thread): (u32, &mut Thread)| {
            if thread.name.is_none() && names > 0 {
                names -= 1;
                let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
                thread.name = Some(shown(name.strip_suffix(b"\n").unwrap_or(&name)));
            }
            row::Thread {
                tid,
                name: thread.name.clone().unwrap_or_default(),
                cpus: thread.since.and_then(|times| per(times.run_ns, 1.0)),
                delay: thread.since.and_then(|times| per(times.wait_ns, 1.0)),
                slices_per_s: thread.since.and_then(|times| per(times.slices, 1e9)),
            }
        };
        threads.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn has_times() -> bool {
        let has = std::path::Path::new("/proc/self/schedstat").exists();
        if !has {
            testing::skip("the kernel has no scheduler statistics");
        }
        has
    }

    #[test]
    fn a_thread_is_counted_while_it_is_there_and_has_its_name() {
        if !has_times() {
            return;
        }
        let (room, pid) = (Room::with(4096), std::process::id());
        let mut threads = Threads::default();
        assert!(threads.look(pid, 1, 0, &room).expect("times").read > 0);
        let (stop, stopped) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let named = std::thread::Builder::new().name("a\x1b[2Jname".into());
        let thread = named.spawn(move || {
            begin.send(()).expect("heard");
            let _ = stopped.recv();
        });
        begun.recv().expect("it runs");
        // Another number of threads: the list is read again.
        let with = threads.look(pid, 2, 1, &room).expect("times");
        let names: Vec<String> = threads.rows(pid, 1).into_iter().map(|thread| thread.name).collect();
        assert!(
            names.contains(&"a\\u{1b}[2Jname".into()) || with.read as usize > NAMES_PER_PASS,
            "{names:?}"
        );
        drop(stop);
        thread.expect("a thread").join().expect("ended");
        let ended = testing::eventually("the kernel forgets the thread", || {
            threads.look(pid, 2, 1, &room).filter(|sum| sum.some_ended)
        });
        assert!(ended.read > 0);
    }

    #[test]
    fn without_room_no_thread_is_read() {
        assert_eq!(Threads::default().look(std::process::id(), 1, 0, &Room::with(0)), None);
    }
}
