//! The threads of one process: how long each ran and waited for a CPU.
//!
//! The kernel has the run-queue delay of threads only, so that of a process is their sum. To read a
//! thread costs 1 µs if its file is open, and to list 5,000 of them 5 ms. So the list is read again
//! only if the number of threads is not that of the threads that are known; that of a large process
//! less often. With many threads on the host each is read in some passes only, and its rates hold
//! until it is read again. A process that has not run since it was looked at is not read at all.
//!
//! Invariants:
//! 1. A thread counts from its own beginning. At the first look at its process no time has passed,
//!    so it has no rates yet. A thread that is found later began after the last moment at which all
//!    threads were known.
//! 2. The rates of a thread are of the time between its own last two readings.

use crate::list::tids;
use crate::reader::{Reader, Room};
use std::os::unix::fs::MetadataExt as _;

/// The list of a process with this number of threads is read in every second pass at most, and with
/// twice this number in every third.
const LIST_SIZE: u64 = 512;
/// The longest `schedstat`: three numbers of 64 bits.
const BYTES_MAX: usize = 64;

/// What `schedstat` says of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How long it ran, in ns.
    pub run_ns: u64,
    /// How long it waited for a CPU, in ns.
    pub wait_ns: u64,
    /// How often it was given one.
    pub slices: u64,
}

impl Times {
    /// Reads them.
    ///
    /// ```
    /// use host::threads::Times;
    ///
    /// assert_eq!(Times::parse(b"5 7 2\n"), Some(Times { run_ns: 5, wait_ns: 7, slices: 2 }));
    /// ```
    pub fn parse(text: &[u8]) -> Option<Times> {
        let mut numbers = str::from_utf8(text).ok()?.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Times { run_ns: next()?, wait_ns: next()?, slices: next()? })
    }

    /// What has been added since an earlier reading.
    fn since(&self, earlier: &Times) -> Times {
        Times {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            slices: self.slices.saturating_sub(earlier.slices),
        }
    }
}

/// What a pass says to all processes.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The number of the pass.
    pub pass: u64,
    /// When it began, by the monotonic clock.
    pub now_ns: u64,
    /// The number of passes between two readings of a thread.
    pub every: u64,
    /// Room for descriptors.
    pub room: &'a Room,
}

/// What a thread does: parts of the time, and a number per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// For which part of the time it ran.
    pub run: f64,
    /// For which part of the time it waited for a CPU.
    pub wait: f64,
    /// How often it was given a CPU, per second.
    pub slices_per_s: f64,
}

/// A thread that is known.
#[derive(Debug)]
pub struct Thread {
    /// The thread id.
    pub tid: u32,
    /// What it does; `None` until it was read twice.
    pub rates: Option<Rates>,
    file: Reader,
    read: Times,
    read_ns: u64,
}

impl Thread {
    /// Reads it; returns what it has done since, or `None` if it has ended.
    fn since(&mut self) -> Option<Times> {
        let now = self.file.read(&mut [0; BYTES_MAX]).and_then(Times::parse)?;
        let since = now.since(&self.read);
        self.read = now;
        Some(since)
    }

    fn advance(&mut self, since: Times, now_ns: u64) {
        let span_ns = now_ns.saturating_sub(self.read_ns);
        self.read_ns = now_ns;
        let per = |count: u64| count as f64 / span_ns.max(1) as f64;
        let rates =
            Rates { run: per(since.run_ns), wait: per(since.wait_ns), slices_per_s: per(since.slices) * 1e9 };
        // Invariant 1.
        self.rates = (span_ns > 0).then_some(rates);
    }
}

/// What the threads do together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// How many ran, on average.
    pub running: f64,
    /// How many waited for a CPU, on average.
    pub waiting: f64,
    /// For how long those that were read have waited since they were read before, in ns.
    pub waited_ns: u64,
    /// How many are known.
    pub known: u32,
}

/// The threads that are known.
#[derive(Debug, Default)]
pub struct Threads {
    known: Vec<Thread>,
    /// The pass that read the list.
    listed: Option<u64>,
    /// When all threads were known.
    complete_ns: u64,
}

impl Threads {
    /// Looks at the threads of a process that has `count` of them, and has run since the last look
    /// or not. The sum is `None` where the kernel keeps no such times.
    ///
    /// ```
    /// use host::reader::Room;
    /// use host::threads::{Threads, Turn, count};
    ///
    /// let (mut threads, pid, room) = (Threads::default(), std::process::id(), Room::with(100));
    /// let turn = Turn { pass: 0, now_ns: 0, every: 1, room: &room };
    /// let sum = threads.look(pid, count(pid), true, &turn);
    /// assert!(sum.is_none_or(|sum| sum.known >= 1));
    /// ```
    pub fn look(&mut self, pid: u32, count: u32, has_run: bool, turn: &Turn) -> Option<Sum> {
        let is_time = |pass: u64| turn.pass > pass + u64::from(count) / LIST_SIZE;
        if self.known.len() != count as usize && self.listed.is_none_or(is_time) {
            self.list(pid, count, turn);
        }
        let mut sum = Sum::default();
        self.known.retain_mut(|thread| {
            if thread.rates.is_none() || (u64::from(thread.tid) + turn.pass).is_multiple_of(turn.every) {
                // With turns, a thread may have run before its process stopped.
                let since = if has_run || turn.every > 1 { thread.since() } else { Some(Times::default()) };
                let Some(since) = since else { return false };
                thread.advance(since, turn.now_ns);
                sum.waited_ns += since.wait_ns;
            }
            let rates = thread.rates.unwrap_or_default();
            sum.running += rates.run;
            sum.waiting += rates.wait;
            sum.known += 1;
            true
        });
        if sum.known == count && turn.every == 1 {
            self.complete_ns = turn.now_ns;
        }
        (sum.known > 0).then_some(sum)
    }

    /// Adds the threads that are new.
    fn list(&mut self, pid: u32, count: u32, turn: &Turn) {
        let since_ns = if self.listed.is_some() { self.complete_ns } else { turn.now_ns };
        self.known.reserve_exact((count as usize).saturating_sub(self.known.len()));
        let old = self.known.len();
        for tid in tids(pid) {
            if self.known[..old].binary_search_by_key(&tid, |thread| thread.tid).is_ok() {
                continue;
            }
            let file = Reader::of(format!("/proc/{pid}/task/{tid}/schedstat").into(), turn.room);
            self.known.push(Thread { tid, rates: None, file, read: Times::default(), read_ns: since_ns });
        }
        self.known.sort_unstable_by_key(|thread| thread.tid);
        (self.listed, self.complete_ns) = (Some(turn.pass), turn.now_ns);
    }

    /// Those that are known, in the order of their ids.
    pub fn known(&self) -> &[Thread] {
        &self.known
    }
}

/// How many threads a process has; 0 if it has ended. The number of links of a folder counts the
/// folders in it, the folder itself, and the one above it.
pub fn count(pid: u32) -> u32 {
    let links = std::fs::metadata(format!("/proc/{pid}/task")).map_or(0, |folder| folder.nlink());
    u32::try_from(links.saturating_sub(2)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Barrier;

    fn turn(pass: u64, room: &Room) -> Turn<'_> {
        Turn { pass, now_ns: pass * 1_000_000_000, every: 1, room }
    }

    fn has_times() -> bool {
        let has = std::path::Path::new("/proc/self/schedstat").exists();
        if !has {
            testing::skip("the kernel has no scheduler statistics");
        }
        has
    }

    #[test]
    fn new_threads_are_found_and_their_ends_too() {
        if !has_times() {
            return;
        }
        let pid = std::process::id();
        // Without room files are opened for each reading.
        for room in [0, 4096].map(Room::with) {
            let mut threads = Threads::default();
            let mut pass = 0;
            let mut look = |threads: &mut Threads| {
                pass += 1;
                threads.look(pid, count(pid), true, &turn(pass, &room)).expect("times")
            };
            let knows = |threads: &Threads, tid: u32| threads.known().iter().any(|it| it.tid == tid);
            assert!(look(&mut threads).known >= 1);
            let (begun, may_end) = (Barrier::new(2), Barrier::new(2));
            let tid = std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    begun.wait();
                    may_end.wait();
                    platform::thread::id()
                });
                begun.wait();
                // Threads of other tests end meanwhile, so the number may be the same as before.
                look(&mut threads);
                look(&mut threads);
                let known: Vec<u32> = threads.known().iter().map(|thread| thread.tid).collect();
                may_end.wait();
                let tid = other.join().expect("its number");
                assert!(known.contains(&tid), "{known:?}");
                tid
            });
            testing::until("the thread is gone", || {
                look(&mut threads);
                !knows(&threads, tid)
            });
            assert!(threads.known().is_sorted_by_key(|thread| thread.tid));
        }
    }

    #[test]
    fn a_thread_counts_from_its_beginning_and_once() {
        if !has_times() {
            return;
        }
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let (room, pid) = (Room::with(9), child.id());
        let (mut threads, mut pass) = (Threads::default(), 0);
        let mut look = |has_run| {
            pass += 1;
            threads.look(pid, 1, has_run, &turn(pass, &room))
        };
        let schedstat = || std::fs::read(format!("/proc/{pid}/schedstat")).expect("it lives");
        let mut all = 0;
        // It may wait for a CPU until it sleeps. A look between two equal readings has what both
        // say.
        let text = testing::eventually("its times stand still", || {
            let before = schedstat();
            all += look(true).expect("times").waited_ns;
            (before == schedstat()).then_some(before)
        });
        assert_eq!(Times::parse(&text).map(|times| times.wait_ns), Some(all));
        // What has not run is not read, and does nothing.
        assert_eq!(look(false), Some(Sum { known: 1, ..Sum::default() }));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(look(true), None, "it has ended");
    }

    #[test]
    fn rates_are_of_the_time_between_a_threads_own_readings() {
        let file = Reader::Named("/proc/self/schedstat".into());
        let mut thread = Thread { tid: 1, rates: None, file, read: Times::default(), read_ns: 0 };
        let since = Times { run_ns: 500, wait_ns: 2_000, slices: 3 };
        thread.advance(since, 0);
        assert_eq!(thread.rates, None, "no time has passed");
        thread.advance(since, 1_000);
        assert_eq!(thread.rates, Some(Rates { run: 0.5, wait: 2.0, slices_per_s: 3e6 }));
        thread.advance(since, 5_000);
        assert_eq!(thread.rates, Some(Rates { run: 0.125, wait: 0.5, slices_per_s: 750_000.0 }));
        let (before, now) = (Times { run_ns: 7, ..since }, Times { run_ns: 9, wait_ns: 1, slices: 4 });
        assert_eq!(now.since(&before), Times { run_ns: 2, wait_ns: 0, slices: 1 }, "it never falls");
    }

    #[test]
    fn with_many_threads_each_is_read_in_its_turn() {
        if !has_times() {
            return;
        }
        let (room, pid) = (Room::with(4096), std::process::id());
        let mut threads = Threads::default();
        let mut look = |pass| {
            threads.look(pid, 1, true, &Turn { every: 4, ..turn(pass, &room) });
            threads.known.iter().filter(|it| it.read_ns > 1_000_000_000).count() == threads.known.len()
        };
        for pass in 0..5 {
            look(pass);
        }
        assert!(look(5) && !threads.known.is_empty(), "{threads:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: Vec<u8>) {
            let _ = Times::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(run_ns: u64, wait_ns: u64, slices: u64) {
            let text = format!("{run_ns} {wait_ns} {slices}\n");
            prop_assert_eq!(Times::parse(text.as_bytes()), Some(Times { run_ns, wait_ns, slices }));
        }
    }
}
