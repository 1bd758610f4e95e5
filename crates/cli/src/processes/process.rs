//! One process, from pass to pass.
//!
//! | what | how often it is read |
//! | --- | --- |
//! | CPU time: the clock of the process | in each pass |
//! | `schedstat` of each thread | in each pass in which it has run; with many threads on the host in turn |
//! | `stat`: name, number of threads | in each pass in which it has run; of threads of the kernel in every 32nd |
//! | its live file | in each pass if there are few, else in turn |
//! | its control groups, its command line | in every 32nd pass |
//!
//! A process whose clock stands still has not run, so none of its threads has. Where that clock is
//! not ours to read, in another pid namespace, CPU time is the sum over the threads.

use super::counts::Between;
use super::row::{self, Inside, Manx, Row};
use super::text::{Stat, command_line, shown};
use super::throttled::worst;
use super::under_manx::UnderManx;
use host::groups::{Groups, Membership};
use host::image::Image;
use host::reader::{Reader, Room};
use host::threads::{Sum, Thread, Threads, Turn};
use platform::usage::process_cpu_ns_of;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The number of passes between two readings of what seldom changes.
const SELDOM: u64 = 32;
/// The longest command line that is kept, in bytes.
const COMMAND_BYTES_MAX: usize = 512;
/// Names of threads that one pass reads at most: each costs 5 µs.
const NAMES_PER_PASS: usize = 64;

/// What all processes of a pass share.
pub struct Pass<'a> {
    /// Its number, its time, and the room for descriptors
    pub turn: Turn<'a>,
    /// Its time in seconds
    pub now_s: u64,
    /// The number of passes between two readings of a live file
    pub counts_every: u64,
    /// The process whose inside is wanted
    pub open: Option<u32>,
    /// The quotas
    pub groups: &'a mut Groups,
    /// Memory for a live file
    pub image: &'a mut Image,
}

/// What is known of a process.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    stat: Reader,
    before: Option<Before>,
    threads: Threads,
    /// The names of its threads that were read
    names: HashMap<u32, String>,
    manx: UnderManx,
    between: Option<Between>,
    membership: Membership,
    command: String,
    /// In which pass what changes seldom was read
    seldom: Option<u64>,
}

/// What the pass before has seen of a process.
#[derive(Debug)]
struct Before {
    at_ns: u64,
    cpu_ns: Option<u64>,
    stat: Stat,
}

/// What a pass has seen of a process.
pub enum Seen {
    /// It has ended
    Ended,
    /// A thread of the kernel
    Kernel,
    /// A process, and its inside if that was wanted
    Process(Box<Row>, Option<Inside>),
}

impl Process {
    /// A process that is new.
    pub fn new(pid: u32, room: &Room) -> Process {
        Process {
            pid,
            stat: Reader::of(format!("/proc/{pid}/stat").into(), room),
            before: None,
            threads: Threads::default(),
            names: HashMap::new(),
            manx: UnderManx::default(),
            between: None,
            membership: None,
            command: String::new(),
            seldom: None,
        }
    }

    /// Whether it has a live file.
    pub fn has_counts(&self) -> bool {
        self.manx.counts.is_some()
    }

    /// Looks at it.
    pub fn look(&mut self, pass: &mut Pass) -> Seen {
        let (turn, now_ns) = (pass.turn, pass.turn.now_ns);
        let is_time = (turn.pass + u64::from(self.pid)).is_multiple_of(SELDOM);
        if !is_time && self.before.as_ref().is_some_and(|before| before.stat.is_kernel) {
            return Seen::Kernel;
        }
        let cpu_ns = process_cpu_ns_of(self.pid);
        let before = self.before.take();
        let idle = before.as_ref().filter(|before| before.cpu_ns == cpu_ns && cpu_ns > Some(0));
        let has_run = idle.is_none();
        let stat = match idle {
            Some(before) if !is_time => before.stat.clone(),
            _ => match self.stat.read(&mut [0; 1024]).and_then(Stat::parse) {
                Some(stat) => stat,
                None => {
                    pass.groups.leave(&mut self.membership, pass.now_s);
                    return Seen::Ended;
                }
            },
        };
        let stat = &self.before.insert(Before { at_ns: now_ns, cpu_ns, stat }).stat;
        if stat.is_kernel {
            return Seen::Kernel;
        }
        let sum = self.threads.look(self.pid, stat.threads, has_run, &turn);
        let manx = self.manx.look(self.pid, &stat.name, has_run);
        let (name, count) = (stat.name.clone(), stat.threads);
        if is_time || self.seldom.is_none() || self.command.is_empty() {
            self.look_seldom(pass);
        }
        let span_ns = before.as_ref().map(|before| now_ns.saturating_sub(before.at_ns).max(1));
        let used_ns = before.and_then(|before| Some(cpu_ns?.saturating_sub(before.cpu_ns?)));
        let cpus = span_ns.and_then(|span_ns| match used_ns {
            Some(used_ns) => Some(used_ns as f64 / span_ns as f64),
            None => sum.map(|sum| sum.running),
        });
        let is_open = pass.open == Some(self.pid);
        self.look_at_counts(pass, is_open);
        let worst = pass.groups.readings(&self.membership).and_then(|[now, before]| worst(now, before));
        let mut row = Row {
            pid: self.pid,
            name,
            command: self.command.clone(),
            manx: if manx == Manx::Counts && !self.has_counts() { Manx::On } else { manx },
            threads: count,
            threads_read: sum.map_or(0, |sum| sum.known),
            cpus,
            delay: span_ns.and(sum).map(|sum: Sum| sum.waiting),
            throttled: worst.as_ref().map(|worst| worst.share),
            ..Row::default()
        };
        let mut inside = None;
        if is_open {
            let (threads, group) = (self.thread_rows(), worst.map(|worst| worst.group));
            inside = Some(Inside { pid: self.pid, group, threads, ..Inside::default() });
        }
        if let Some(between) = &self.between {
            fill(&mut row, between);
            if let Some(inside) = &mut inside {
                (inside.loops, inside.locks) = (between.loops.clone(), between.locks.clone());
                inside.trials = between.asked.iter().map(ToString::to_string).collect();
            }
        }
        Seen::Process(Box::new(row), inside)
    }

    fn look_seldom(&mut self, pass: &mut Pass) {
        // A process that has no command line keeps none: it is not asked in each pass.
        if self.seldom.is_some_and(|before| pass.turn.pass < before + 2) {
            return;
        }
        self.seldom = Some(pass.turn.pass);
        pass.groups.follow(&mut self.membership, self.pid, pass.now_s);
        let command = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        self.command = command_line(&command, COMMAND_BYTES_MAX);
    }

    /// Each thread, those that run and wait most first; with names, as far as they are read.
    fn thread_rows(&mut self) -> Vec<row::Thread> {
        let mut threads: Vec<_> = self.threads.known().iter().collect();
        // In millionths, because numbers with a fraction have no order.
        threads.sort_by_cached_key(|thread| {
            let weight = thread.rates.map_or(0, |rates| ((rates.run + rates.wait) * 1e6) as u64);
            (Reverse(weight), thread.tid)
        });
        let is_known =
            |tid: &u32| self.threads.known().binary_search_by_key(tid, |thread| thread.tid).is_ok();
        self.names.retain(|tid, _| is_known(tid));
        let unnamed = threads.iter().map(|thread| thread.tid).filter(|tid| !self.names.contains_key(tid));
        for tid in unnamed.take(NAMES_PER_PASS).collect::<Vec<_>>() {
            let name = std::fs::read(format!("/proc/{}/task/{tid}/comm", self.pid)).unwrap_or_default();
            self.names.insert(tid, shown(name.strip_suffix(b"\n").unwrap_or(&name)));
        }
        let row = |thread: &Thread| row::Thread {
            tid: thread.tid,
            name: self.names.get(&thread.tid).cloned().unwrap_or_default(),
            cpus: thread.rates.map(|rates| rates.run),
            delay: thread.rates.map(|rates| rates.wait),
            slices_per_s: thread.rates.map(|rates| rates.slices_per_s),
        };
        threads.into_iter().map(row).collect()
    }

    /// Reads the live file, if it is its turn.
    fn look_at_counts(&mut self, pass: &mut Pass, is_open: bool) {
        let Some(counts) = &mut self.manx.counts else {
            self.between = None;
            return;
        };
        let is_turn = (pass.turn.pass + u64::from(self.pid)).is_multiple_of(pass.counts_every);
        if is_turn || is_open || self.between.is_none() {
            self.between = counts.look(pass.image, pass.turn.now_ns);
            if self.between.is_none() {
                self.manx.lose_counts();
            }
        }
    }
}

/// Puts what a live file says into a process's row. At the first reading there are no rates.
fn fill(row: &mut Row, between: &Between) {
    row.sites = Some(between.sites);
    let Some(span_ns) = between.span_ns else { return };
    row.lost = Some(lost(between.waited_ns as f64 / span_ns as f64, row.cpus, row.delay));
    row.locks = Some(between.contended);
    row.lock_waits_per_s = Some(between.waits.count() as f64 * 1e9 / span_ns as f64);
    row.p50_ns = between.percentile(0.5);
    row.p99_ns = between.percentile(0.99);
    row.max_ns = (between.contended > 0).then_some(between.longest_ns);
}

/// How many CPUs were lost to `waiting` threads in loops. A part of these threads waited for a CPU
/// themselves; that part is taken to be the same as in the whole process. Sleeps in a loop count as
/// if they used a CPU, so the estimate is too high rather than too low. It is never more than all
/// CPUs that the process used.
fn lost(waiting: f64, cpus: Option<f64>, delay: Option<f64>) -> f64 {
    let Some(cpus) = cpus else { return waiting };
    let runnable = cpus + delay.unwrap_or(0.0);
    let running = if runnable > 0.0 { cpus / runnable } else { 0.0 };
    (waiting * running).min(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use preload_abi::histogram::{Counts as Histogram, bucket_of};

    #[test]
    fn waiting_costs_no_more_than_the_process_used() {
        let mut waits = Histogram::default();
        waits.0[bucket_of(1_000_000)] = 100;
        let between = Between {
            span_ns: Some(2_000_000_000),
            sites: 3,
            waited_ns: 8_000_000_000,
            contended: 2,
            waits,
            longest_ns: 1_000_000,
            ..Between::default()
        };
        let mut row = Row { cpus: Some(1.5), ..Row::default() };
        fill(&mut row, &between);
        assert_eq!((row.lost, row.sites, row.locks), (Some(1.5), Some(3), Some(2)));
        assert_eq!(
            (row.lock_waits_per_s, row.p99_ns, row.max_ns),
            (Some(50.0), Some(1_000_000), Some(1_000_000))
        );
        let mut row = Row { cpus: Some(9.0), ..Row::default() };
        fill(&mut row, &between);
        assert_eq!(row.lost, Some(4.0));
        let mut row = Row { cpus: Some(1.0), delay: Some(3.0), ..Row::default() };
        fill(&mut row, &between);
        assert_eq!(row.lost, Some(1.0), "of four threads that wait, one runs");
        let mut first = Row::default();
        fill(&mut first, &Between { span_ns: None, ..between });
        assert_eq!((first.sites, first.lost, first.p99_ns), (Some(3), None, None));
    }
}
