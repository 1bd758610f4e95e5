//! One process, from pass to pass.
//!
//! | what | how often it is read |
//! | --- | --- |
//! | `schedstat` of each thread | in each pass; with many threads on the host in turn |
//! | `stat`: name, CPU time, number of threads | in each pass in which it has run; of threads of the kernel in every 32nd |
//! | its live file | in each pass if there are few, else in turn |
//! | its control groups, its command line | in every 32nd pass |
//!
//! CPU time is the sum over the threads, in ns, if all were read in this pass. Else it is that of
//! `stat`: all threads, but in ticks of 10 ms. Where threads have ended the greater one counts.

use super::counts::Between;
use super::groups::Groups;
use super::kept::{Reader, Room};
use super::row::{Inside, Manx, Row};
use super::text::{Stat, command_line};
use super::threads::{Sum, Threads, Turn};
use super::under_manx::UnderManx;
use crate::stats::image::Image;
use std::path::PathBuf;

/// The number of passes between two readings of what seldom changes.
const SELDOM: u64 = 32;
/// The longest command line that is kept, in bytes.
const COMMAND_BYTES_MAX: usize = 512;

/// What all processes of a pass share.
pub struct Pass<'a> {
    /// Its number, its time, and the room for descriptors
    pub turn: Turn<'a>,
    /// The length of a tick of `stat`
    pub tick_ns: u64,
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
    /// What `stat` said last, and when
    before: Option<(u64, Stat)>,
    threads: Threads,
    manx: UnderManx,
    between: Option<Between>,
    membership: Vec<u8>,
    command: String,
    /// In which pass what changes seldom was read
    seldom: Option<u64>,
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
            stat: Reader::of(PathBuf::from(format!("/proc/{pid}/stat")), room),
            before: None,
            threads: Threads::default(),
            manx: UnderManx::default(),
            between: None,
            membership: vec![],
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
        if !is_time && self.before.as_ref().is_some_and(|(_, stat)| stat.is_kernel) {
            return Seen::Kernel;
        }
        let before = self.before.take();
        let idle = before.as_ref().filter(|(_, stat)| !stat.is_kernel && self.threads.is_idle(now_ns));
        let (stat, sum) = match idle {
            Some((_, stat)) => (stat.clone(), Some(Threads::idle())),
            None => {
                let mut text = [0; 1024];
                let Some(stat) = self.stat.read(&mut text).and_then(Stat::parse) else { return Seen::Ended };
                if stat.is_kernel {
                    self.before = Some((now_ns, stat));
                    return Seen::Kernel;
                }
                let sum = self.threads.look(self.pid, stat.threads, &turn);
                (stat, sum)
            }
        };
        let manx = self.manx.look(self.pid, &stat.name);
        if is_time || self.seldom.is_none() || self.command.is_empty() {
            self.look_seldom(turn.pass);
        }
        let span_ns = before.as_ref().map(|(at_ns, _)| now_ns.saturating_sub(*at_ns).max(1));
        let ticks = before.map_or(0, |(_, before)| stat.ticks.saturating_sub(before.ticks));
        let in_ticks = span_ns.map(|span_ns| (ticks * pass.tick_ns) as f64 / span_ns as f64);
        let cpus = in_ticks.map(|in_ticks| match sum {
            Some(sum) if turn.every == 1 && sum.read >= stat.threads && !sum.some_ended => sum.running,
            Some(sum) if turn.every == 1 => sum.running.max(in_ticks),
            _ => in_ticks,
        });
        self.before = Some((now_ns, stat.clone()));
        let is_open = pass.open == Some(self.pid);
        self.look_at_counts(pass, is_open);
        let worst = pass.groups.worst(&self.membership, self.pid, turn.pass);
        let mut row = Row {
            pid: self.pid,
            name: stat.name,
            command: self.command.clone(),
            manx: if manx == Manx::Counts && !self.has_counts() { Manx::On } else { manx },
            threads: stat.threads,
            threads_read: sum.map_or(0, |sum| sum.read),
            cpus,
            delay: span_ns.and(sum).map(|sum: Sum| sum.waiting),
            throttled: worst.map(|worst| worst.share),
            ..Row::default()
        };
        let group = worst.map(|worst| worst.group.clone());
        let mut inside = None;
        if is_open {
            let threads = self.threads.rows(self.pid);
            inside = Some(Inside { pid: self.pid, group, threads, ..Inside::default() });
        }
        if let Some(between) = &self.between {
            fill(&mut row, between);
            if let Some(inside) = &mut inside {
                (inside.loops, inside.locks) = (between.loops.clone(), between.locks.clone());
            }
        }
        Seen::Process(Box::new(row), inside)
    }

    fn look_seldom(&mut self, pass: u64) {
        // A process that has no command line keeps none: it is not asked in each pass.
        if self.seldom.is_some_and(|before| pass < before + 2) {
            return;
        }
        self.seldom = Some(pass);
        let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", self.pid)).unwrap_or_default();
        self.membership = read("cgroup");
        self.command = command_line(&read("cmdline"), COMMAND_BYTES_MAX);
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
