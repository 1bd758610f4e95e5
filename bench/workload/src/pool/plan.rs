//! How each case is run: what it is loaded with, and its versions in turn.

use super::judge;
use super::kind::Kind;
use super::spec::{Load, Task};
use super::variant::{Stage, Variant};
use super::work::Capacity;
use crate::error::Error;
use crate::harness::{Bench, Case};
use report::Report;
use report::figure::{duration, three_digits};
use std::path::PathBuf;
use std::time::Duration;

/// More jobs a second than a machine with two CPUs can do: the rate with which the peers were
/// measured.
const OVERLOAD_PER_S: f64 = 1200.0;
/// Where that is no overload, the overload is this number of times the machine's capacity.
const OVERLOAD: f64 = 1.1;
/// A load that leaves room: this share of the machine's capacity.
const ROOM: f64 = 0.6;
/// The phases of neighbours' loads differ by the golden ratio, so that no two processes get their
/// jobs at the same moments.
const GOLDEN: f64 = 0.618_033_988_75;

/// What the runs of all parts have in common.
pub(super) struct Plan {
    /// The kinds of pools that are measured.
    pub(super) kinds: Vec<Kind>,
    /// A smoke check.
    pub(super) quick: bool,
    /// The time of a run.
    pub(super) time: Duration,
    /// Requests come at random, as often, instead of at equal distances.
    pub(super) poisson: bool,
    /// The command that starts programs.
    pub(super) manx: PathBuf,
    pub(super) stage: Stage,
    pub(super) capacity: Capacity,
}

impl Plan {
    pub(super) fn notes(&self, bench: &mut Bench) {
        let Capacity { jobs_per_s, job_ns } = self.capacity;
        bench.note(format!(
            "a job computes fib(30): {} on each of {} CPUs at once, {} jobs/s in all. Overload: {:.0} jobs/s for each process; \
             60 % load: {:.0} jobs/s for all processes together",
            duration(job_ns as u64),
            self.stage.cpus,
            three_digits(jobs_per_s),
            self.overload_per_s(),
            ROOM * jobs_per_s
        ));
        let arrivals = if self.poisson { "at random (Poisson)" } else { "at equal distances" };
        bench.note(format!(
            "requests come {arrivals}, from a thread of the process itself; latencies begin when that has put a job into the queue, \
             and 'late' is how long after it was due that happened"
        ));
        let sessions = match (crate::child::autogroup(), self.stage.sessions) {
            (Err(why), _) => format!("the kernel divides the CPUs among all threads: {why}"),
            (Ok(()), false) => "the processes of a run share a session, and so an autogroup: the kernel divides the CPUs among threads".into(),
            (Ok(()), true) => "each process has a session, and so an autogroup, of its own: the kernel divides the CPUs among processes".into(),
        };
        bench.note(sessions);
        if let Err(why) = &self.stage.hierarchy {
            bench.note(format!("without control groups, which cannot be made: {why}"));
        }
    }

    /// True if pools of this kind are measured.
    pub(super) fn wants(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    pub(super) fn overload_per_s(&self) -> f64 {
        OVERLOAD_PER_S.max(OVERLOAD * self.capacity.jobs_per_s)
    }

    /// A load of `rate_per_s` jobs a second for the process with this number. Jobs that wait at the
    /// end may still begin within the drain.
    pub(super) fn load(&self, rate_per_s: f64, index: usize, drain: Duration) -> Load {
        let phase = (index as f64 * GOLDEN).fract();
        Load { rate_per_s, poisson: self.poisson, phase, pause: None, time: self.time, drain }
    }

    /// More jobs than the machine can do. Jobs that wait at the end are dropped.
    pub(super) fn overload(&self, index: usize) -> Task {
        Task::Serve(self.load(self.overload_per_s(), index, Duration::ZERO))
    }

    /// Sixty percent of the machine's capacity, divided by the number of processes.
    pub(super) fn room(&self, index: usize, processes: usize) -> Task {
        let rate_per_s = ROOM * self.capacity.jobs_per_s / processes as f64;
        Task::Serve(self.load(rate_per_s, index, self.time / 2))
    }

    pub(super) fn compare(&self, bench: &mut Bench, case: &str, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| crate::verdict::watched(report, case, judge::figure);
        let case = Case { name: case, variants: &names, expected: self.time };
        bench.compare(case, watch, |at, _| variants[at].run(&self.stage))
    }

    /// All points of a sweep, or those of a smoke check.
    pub(super) fn sweep<T: Copy>(&self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.quick { quick.to_vec() } else { all.to_vec() }
    }
}
