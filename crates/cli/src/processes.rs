//! What runs on the host, and how it waits: one pass over `/proc` for each look, for `manx top` and
//! for `manx stats` without a process.
//!
//! A pass must cost next to nothing with hundreds of processes and thousands of threads. What the
//! package `host` reads stays open between passes and is shared, what changes seldom is read
//! seldom (`process.rs`), and with many threads or live files each is read in some passes only.
//! [`row`] is what comes out.

pub mod cells;
mod counts;
mod pressure;
mod process;
pub mod row;
pub mod text;
mod throttled;
pub mod totals;
mod under_manx;

use host::groups::{Ages, Groups};
use host::image::Image;
use host::list::pids;
use host::reader::Room;
use host::threads::Turn;
use pressure::HostWatch;
use process::{Pass, Process, Seen};
use row::Snapshot;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// The number of live files that one pass reads: each has up to 3 MB.
const COUNTS_PER_PASS: u64 = 8;

/// The number of threads that one pass reads, at 1 µs each.
const THREADS_PER_PASS: u64 = 1_000;
/// The most files that are kept open.
const FILES_MAX: usize = 16_384;
/// Descriptors for all else.
const DESCRIPTORS: usize = 64;
/// Quotas are read in each pass, groups without one may get one.
const AGES: Ages = Ages { quota_s: 0, other_s: 16 };

/// Watches the host.
pub struct Watch {
    began: Instant,
    pass: u64,
    /// Each pass reads everything, whatever it costs
    is_thorough: bool,
    before_ns: Option<u64>,
    /// How many threads are read
    threads: u64,
    known: BTreeMap<u32, Process>,
    room: Room,
    groups: Groups,
    image: Image,
    host: HostWatch,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch::new()
    }
}

impl Watch {
    /// Nothing has been seen yet.
    pub fn new() -> Watch {
        Watch {
            began: Instant::now(),
            pass: 0,
            is_thorough: false,
            before_ns: None,
            threads: 0,
            known: BTreeMap::new(),
            room: Room::beside(DESCRIPTORS, FILES_MAX),
            groups: Groups::new(AGES),
            image: Image::default(),
            host: HostWatch::new(),
        }
    }

    /// The same, but each look reads every live file and every thread, whatever that costs.
    pub fn thorough() -> Watch {
        Watch { is_thorough: true, ..Watch::new() }
    }

    /// Looks at all processes, and into the one with the number `open`.
    pub fn look(&mut self, open: Option<u32>) -> Snapshot {
        let now_ns = self.began.elapsed().as_nanos() as u64;
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut snapshot = Snapshot {
            unix_ms: since_1970.as_millis() as u64,
            span_ns: self.before_ns.map_or(0, |before| now_ns - before),
            host: self.host.look(),
            ..Snapshot::default()
        };
        let with_counts = self.known.values().filter(|process| process.has_counts()).count() as u64;
        let turns =
            |all: u64, per_pass: u64| if self.is_thorough { 1 } else { all.div_ceil(per_pass).max(1) };
        let now_s = now_ns / 1_000_000_000;
        self.groups.look(now_s, || true);
        let every = turns(self.threads, THREADS_PER_PASS);
        let mut pass = Pass {
            turn: Turn { pass: self.pass, now_ns, every, room: &self.room },
            now_s,
            counts_every: turns(with_counts, COUNTS_PER_PASS),
            open,
            groups: &mut self.groups,
            image: &mut self.image,
        };
        for pid in pids() {
            self.known.entry(pid).or_insert_with(|| Process::new(pid, &self.room));
        }
        self.known.retain(|_, process| match process.look(&mut pass) {
            Seen::Ended => false,
            Seen::Kernel => true,
            Seen::Process(row, inside) => {
                snapshot.processes.push(*row);
                snapshot.inside = snapshot.inside.take().or(inside);
                true
            }
        });
        self.threads = snapshot.processes.iter().map(|row| u64::from(row.threads_read)).sum();
        self.pass += 1;
        self.before_ns = Some(now_ns);
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_with_its_threads_and_rates_need_two_looks() {
        let (mut watch, own) = (Watch::new(), std::process::id());
        let of = |snapshot: &Snapshot| {
            snapshot.processes.iter().find(|row| row.pid == own).cloned().expect("this process")
        };
        let first = watch.look(None);
        assert_eq!((of(&first).cpus, first.span_ns, &first.inside), (None, 0, &None));
        let mut work = 0_u64;
        let second = testing::eventually("some CPU time", || {
            work = (0..100_000).fold(work, |sum, it| std::hint::black_box(sum ^ it));
            let snapshot = watch.look(Some(own));
            (of(&snapshot).cpus > Some(0.0)).then_some(snapshot)
        });
        let inside = second.inside.as_ref().expect("asked for");
        assert!(inside.pid == own && inside.loops.is_empty() && !inside.threads.is_empty(), "{inside:?}");
        assert!(of(&second).command.contains("cli"), "{:?}", of(&second));
        assert!(second.host.cpus >= Some(1));
    }

    #[test]
    fn a_process_that_ends_is_seen_no_more() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let (mut watch, pid) = (Watch::new(), child.id());
        let sees = |watch: &mut Watch| watch.look(None).processes.iter().any(|row| row.pid == pid);
        assert!(sees(&mut watch));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(!sees(&mut watch));
    }
}
