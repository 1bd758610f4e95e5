//! The threads of one process: how long each ran and waited for a CPU.
//!
//! The kernel has the run-queue delay of threads only, so that of a process is their sum. To read a
//! thread costs 2 µs, and to list 5,000 of them 5 ms. So with many threads on the host each is read
//! in some passes only, and its rates hold until it is read again. The list is read again when the
//! number of threads has changed, and from time to time, because a thread may have taken another
//! one's place; that of a large process less often.
//!
//! Invariants:
//! 1. A thread counts from the pass in which it was first seen if that was the first pass over its
//!    process, else from its beginning, which was after the list was read before.
//! 2. What cannot be kept open is not read. Then `read` is less than the number of threads.
//! 3. The rates of a thread are of the time between its own last two readings.

use super::kept::{Kept, Room};
use super::row;
use super::text::{Times, shown};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The number of passes between two readings of the list.
const LIST_EVERY: u64 = 8;
/// The list of a process with this number of threads is read half as often, and with twice this
/// number a third as often.
const LIST_SIZE: u64 = 512;
/// Names that one pass reads at most: each costs 5 µs.
const NAMES_PER_PASS: usize = 64;
/// The longest `schedstat`: three numbers of 64 bits.
const BYTES_MAX: usize = 64;

/// What a pass says to all processes.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The number of the pass
    pub pass: u64,
    /// When it began, by the monotonic clock
    pub now_ns: u64,
    /// The number of passes between two readings of a thread
    pub every: u64,
    /// Room for descriptors
    pub room: &'a Room,
}

/// The threads that are known.
#[derive(Debug, Default)]
pub struct Threads {
    known: BTreeMap<u32, Thread>,
    listed: Option<Listed>,
}

/// When the list was read.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// How many threads there were
    count: u32,
    pass: u64,
    at_ns: u64,
}

#[derive(Debug)]
struct Thread {
    file: Kept,
    before: Times,
    before_ns: u64,
    rates: Option<Rates>,
    name: Option<String>,
}

/// What a thread does: parts of the time, and a number per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    run: f64,
    wait: f64,
    slices_per_s: f64,
}

/// What the threads do together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// How many ran, on average
    pub running: f64,
    /// How many waited for a CPU, on average
    pub waiting: f64,
    /// How many are read
    pub read: u32,
    /// Whether some ended, so that the sum lacks what they did last
    pub some_ended: bool,
}

impl Thread {
    /// What it has done since it was read before; `None` if it has ended.
    fn since(&self) -> Option<Times> {
        let mut text = [0; BYTES_MAX];
        let now = self.file.read(&mut text).and_then(Times::parse)?;
        Some(now.since(&self.before))
    }

    fn advance(&mut self, since: Times, now_ns: u64) {
        let span_ns = now_ns.saturating_sub(self.before_ns);
        self.before = self.before.plus(&since);
        self.before_ns = now_ns;
        let per = |ns: u64| ns as f64 / span_ns.max(1) as f64;
        let rates =
            Rates { run: per(since.run_ns), wait: per(since.wait_ns), slices_per_s: per(since.slices) * 1e9 };
        // At the moment in which a thread is found nothing has passed.
        self.rates = (span_ns > 0).then_some(rates);
    }
}

impl Threads {
    /// Whether the process has one thread, which has not run and did not wish to since it was read
    /// before. Then nothing else of the process has changed either.
    pub fn is_idle(&mut self, now_ns: u64) -> bool {
        if self.listed.is_none_or(|listed| listed.count != 1) || self.known.len() != 1 {
            return false;
        }
        let is_idle = |thread: &mut Thread| {
            let is_idle = thread.since() == Some(Times::default());
            if is_idle {
                thread.advance(Times::default(), now_ns);
            }
            is_idle
        };
        self.known.values_mut().all(is_idle)
    }

    /// What one idle thread does.
    pub fn idle() -> Sum {
        Sum { read: 1, ..Sum::default() }
    }

    /// Reads those of a process with `count` threads whose turn it is. `None` where the kernel
    /// keeps no such times.
    pub fn look(&mut self, pid: u32, count: u32, turn: &Turn) -> Option<Sum> {
        let rest = u64::from(count) / LIST_SIZE;
        let is_time = |listed: Listed| {
            let passes = turn.pass - listed.pass;
            passes >= LIST_EVERY * (1 + rest) || (listed.count != count && passes > rest)
        };
        if self.listed.is_none_or(is_time) {
            self.list(pid, turn);
            self.listed = Some(Listed { count, pass: turn.pass, at_ns: turn.now_ns });
        }
        let mut sum = Sum::default();
        self.known.retain(|tid, thread| {
            if thread.rates.is_none() || (u64::from(*tid) + turn.pass).is_multiple_of(turn.every) {
                let Some(since) = thread.since() else {
                    sum.some_ended = true;
                    return false;
                };
                thread.advance(since, turn.now_ns);
            }
            let rates = thread.rates.unwrap_or_default();
            sum.running += rates.run;
            sum.waiting += rates.wait;
            sum.read += 1;
            true
        });
        (sum.read > 0).then_some(sum)
    }

    /// Adds the threads that are new.
    fn list(&mut self, pid: u32, turn: &Turn) {
        let folder = PathBuf::from(format!("/proc/{pid}/task"));
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(tid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            if self.known.contains_key(&tid) {
                continue;
            }
            let Some(file) = Kept::of_thread(&folder.join(format!("{tid}/schedstat")), turn.room) else {
                continue;
            };
            let before_ns = self.listed.map_or(turn.now_ns, |listed| listed.at_ns);
            let mut thread = Thread { file, before: Times::default(), before_ns, rates: None, name: None };
            if self.listed.is_none() {
                // Invariant 1.
                thread.before = thread.since().unwrap_or_default();
            }
            self.known.insert(tid, thread);
        }
    }

    /// Each thread, those that run and wait most first; with names, as far as they are read.
    pub fn rows(&mut self, pid: u32) -> Vec<row::Thread> {
        let mut threads: Vec<(u32, &mut Thread)> =
            self.known.iter_mut().map(|(tid, thread)| (*tid, thread)).collect();
        // In millionths, because numbers with a fraction have no order.
        let weight =
            |thread: &Thread| thread.rates.map_or(0, |rates| ((rates.run + rates.wait) * 1e6) as u64);
        threads.sort_by_cached_key(|(tid, thread)| (Reverse(weight(thread)), *tid));
        let mut names = NAMES_PER_PASS;
        let row = |(tid, thread): (u32, &mut Thread)| {
            if thread.name.is_none() && names > 0 {
                names -= 1;
                let name = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
                thread.name = Some(shown(name.strip_suffix(b"\n").unwrap_or(&name)));
            }
            row::Thread {
                tid,
                name: thread.name.clone().unwrap_or_default(),
                cpus: thread.rates.map(|rates| rates.run),
                delay: thread.rates.map(|rates| rates.wait),
                slices_per_s: thread.rates.map(|rates| rates.slices_per_s),
            }
        };
        threads.into_iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

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
    fn a_thread_is_counted_while_it_is_there_and_has_its_name() {
        if !has_times() {
            return;
        }
        let (room, pid) = (Room::with(4096), std::process::id());
        let mut threads = Threads::default();
        assert!(threads.look(pid, 1, &turn(0, &room)).expect("times").read > 0);
        let (stop, stopped) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let named = std::thread::Builder::new().name("a\x1b[2Jname".into());
        let thread = named.spawn(move || {
            begin.send(()).expect("heard");
            let _ = stopped.recv();
        });
        begun.recv().expect("it runs");
        // Another number of threads: the list is read again.
        let with = threads.look(pid, 2, &turn(1, &room)).expect("times");
        let names: Vec<String> = threads.rows(pid).into_iter().map(|thread| thread.name).collect();
        assert!(
            names.contains(&"a\\u{1b}[2Jname".into()) || with.read as usize > NAMES_PER_PASS,
            "{names:?}"
        );
        drop(stop);
        thread.expect("a thread").join().expect("ended");
        let ended = testing::eventually("the kernel forgets the thread", || {
            threads.look(pid, 2, &turn(1, &room)).filter(|sum| sum.some_ended)
        });
        assert!(ended.read > 0);
    }

    #[test]
    fn without_room_no_thread_is_read() {
        let room = Room::with(0);
        assert_eq!(Threads::default().look(std::process::id(), 1, &turn(0, &room)), None);
    }

    #[test]
    fn a_process_that_sleeps_is_idle_and_one_that_runs_is_not() {
        if !has_times() {
            return;
        }
        let room = Room::with(4096);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let mut threads = Threads::default();
        let mut pass = 0;
        testing::until("it sleeps", || {
            threads.look(child.id(), 1, &turn(pass, &room));
            pass += 1;
            threads.is_idle(pass * 1_000_000_000)
        });
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(!threads.is_idle(u64::MAX), "it has ended");
        let (mut own, pid) = (Threads::default(), std::process::id());
        own.look(pid, 9, &turn(0, &room));
        assert!(!own.is_idle(1), "several threads");
    }

    #[test]
    fn rates_are_of_the_time_between_a_threads_own_readings() {
        let room = Room::with(9);
        let Some(file) = Kept::of_thread(std::path::Path::new("/proc/self/stat"), &room) else { return };
        let mut thread = Thread { file, before: Times::default(), before_ns: 0, rates: None, name: None };
        let since = Times { run_ns: 500, wait_ns: 2_000, slices: 3 };
        thread.advance(since, 0);
        assert_eq!(thread.rates, None, "no time has passed");
        thread.advance(since, 1_000);
        assert_eq!(thread.rates, Some(Rates { run: 0.5, wait: 2.0, slices_per_s: 3e6 }));
        thread.advance(since, 5_000);
        assert_eq!(thread.rates, Some(Rates { run: 0.125, wait: 0.5, slices_per_s: 750_000.0 }));
        assert_eq!(thread.before, Times { run_ns: 1_500, wait_ns: 6_000, slices: 9 });
    }

    #[test]
    fn with_many_threads_each_is_read_in_its_turn() {
        if !has_times() {
            return;
        }
        let (room, pid) = (Room::with(4096), std::process::id());
        let mut threads = Threads::default();
        let at = |pass| Turn { every: 4, ..turn(pass, &room) };
        threads.look(pid, 1, &at(0));
        threads.look(pid, 1, &at(1));
        let read =
            |threads: &Threads| threads.known.values().filter(|it| it.before_ns > 1_000_000_000).count();
        let all = threads.known.len();
        for pass in 2..6 {
            threads.look(pid, 1, &at(pass));
        }
        // Threads of other tests may have ended meanwhile.
        assert!(read(&threads) == threads.known.len() && all >= 1, "{threads:?}");
    }
}
