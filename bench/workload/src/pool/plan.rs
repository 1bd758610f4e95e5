//! How each case is run: what it is loaded with, and its versions in turn.

use super::spec::{Crowd, Kind, Load, Lock, Outcome, Output, Process, Shape, Task};
use super::work::Capacity;
use super::{conclude, leader};
use crate::error::Error;
use crate::group::{Group, Hierarchy, Limits};
use crate::harness::{Bench, Case, Sample};
use report::Report;
use report::figure::{duration, three_digits};
use std::path::{Path, PathBuf};
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

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which kinds of pools
    pub kinds: Vec<Kind>,
    /// A smoke check
    pub quick: bool,
    /// The time of a run
    pub time: Duration,
    /// Requests come at random, as often, instead of at equal distances
    pub poisson: bool,
    /// A session for each process
    pub sessions: bool,
    /// The command that starts programs
    pub manx: PathBuf,
    /// This command, which the processes are
    pub own: PathBuf,
}

/// What the runs of all parts have in common.
pub(super) struct Plan {
    pub(super) setup: Setup,
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
        let arrivals = if self.setup.poisson { "at random (Poisson)" } else { "at equal distances" };
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
        self.setup.kinds.contains(&kind)
    }

    pub(super) fn overload_per_s(&self) -> f64 {
        OVERLOAD_PER_S.max(OVERLOAD * self.capacity.jobs_per_s)
    }

    /// A load of `rate_per_s` jobs a second for the process with this number. Jobs that wait at the
    /// end may still begin within the drain.
    pub(super) fn load(&self, rate_per_s: f64, index: usize, drain: Duration) -> Load {
        let phase = (index as f64 * GOLDEN).fract();
        Load { rate_per_s, poisson: self.setup.poisson, phase, pause: None, time: self.setup.time, drain }
    }

    /// More jobs than the machine can do. Jobs that wait at the end are dropped.
    pub(super) fn overload(&self, index: usize) -> Task {
        Task::Serve(self.load(self.overload_per_s(), index, Duration::ZERO))
    }

    /// Sixty percent of the machine's capacity, divided by the number of processes.
    pub(super) fn room(&self, index: usize, processes: usize) -> Task {
        let rate_per_s = ROOM * self.capacity.jobs_per_s / processes as f64;
        Task::Serve(self.load(rate_per_s, index, self.setup.time / 2))
    }

    pub(super) fn compare(&self, bench: &mut Bench, case: &str, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| crate::verdict::watched(report, case, conclude::figure);
        let case = Case { name: case, variants: &names, expected: self.setup.time };
        bench.compare(case, watch, |at, _| variants[at].run(&self.stage))
    }

    /// All points of a sweep, or those of a smoke check.
    pub(super) fn sweep<T: Copy>(&self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.setup.quick { quick.to_vec() } else { all.to_vec() }
    }
}

/// A version of a case.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in tables
    pub name: String,
    /// The processes
    pub processes: Vec<Process>,
    /// The groups to make
    pub groups: Vec<Limits>,
    /// The index of each process's group; empty without groups
    pub places: Vec<usize>,
    /// The first and the second process have figures of their own
    pub apart: bool,
}

/// Where and how variants run.
#[derive(Clone, Debug)]
pub struct Stage {
    /// This command
    pub own: PathBuf,
    /// Where groups are made
    pub hierarchy: Result<Hierarchy, String>,
    /// A session for each process
    pub sessions: bool,
    /// CPUs that may be used
    pub cpus: usize,
}

/// A process that does `task` with a pool of a kind.
pub fn process(kind: Kind, threads: usize, task: Task) -> Process {
    Process {
        kind,
        shape: Shape { threads, ..Shape::default() },
        lock: Lock::None,
        task,
        groups: Vec::new(),
        program: Vec::new(),
        environment: Default::default(),
    }
}

impl Variant {
    /// These processes, in no groups of their own.
    pub fn of(name: impl Into<String>, processes: Vec<Process>) -> Variant {
        Variant { name: name.into(), processes, groups: Vec::new(), places: Vec::new(), apart: false }
    }

    /// All processes in one group of these limits.
    pub fn within(mut self, limits: Limits) -> Variant {
        self.places = vec![0; self.processes.len()];
        self.groups = vec![limits];
        self
    }

    /// Each process in a group of its own, of the same limits.
    pub fn within_each(mut self, limits: Limits) -> Variant {
        self.places = (0..self.processes.len()).collect();
        self.groups = vec![limits; self.processes.len()];
        self
    }

    /// The first and the second process have figures of their own.
    pub fn told_apart(self) -> Variant {
        Variant { apart: true, ..self }
    }

    /// Runs it once.
    ///
    /// # Errors
    /// If a group cannot be made, a process fails, or the user interrupts.
    pub fn run(&self, stage: &Stage) -> Result<Sample, Error> {
        let groups = self.make(stage.hierarchy.as_ref())?;
        let mut processes = self.processes.clone();
        for (process, &place) in processes.iter_mut().zip(&self.places) {
            process.groups = groups[place].folders();
        }
        let crowd = Crowd { processes, sessions: stage.sessions };
        let outcomes = leader::run(Path::new(&stage.own), &crowd).map_err(|error| match error {
            Error::Failed { what, stderr } => {
                Error::Failed { what: format!("{}: {what}", self.name), stderr }
            }
            other => other,
        })?;
        let throttled = groups.iter().filter_map(Group::throttled).reduce(f64::max);
        Ok(sample(self.load(), self.apart, stage.cpus, &outcomes, throttled))
    }

    fn make(&self, hierarchy: Result<&Hierarchy, &String>) -> Result<Vec<Group>, Error> {
        let help = "control groups could be made when the bench began";
        if self.groups.is_empty() {
            return Ok(Vec::new());
        }
        let hierarchy = hierarchy.map_err(|why| Error::request(why, help))?;
        let make = |(at, limits): (usize, &Limits)| hierarchy.make(&at.to_string(), *limits);
        let made: Result<Vec<Group>, String> = self.groups.iter().enumerate().map(make).collect();
        made.map_err(|why| Error::request(why, help))
    }

    /// The load of the process that serves first; `None` if no process serves.
    fn load(&self) -> Option<&Load> {
        self.processes.iter().find_map(|process| match &process.task {
            Task::Serve(load) => Some(load),
            _ => None,
        })
    }
}

/// The figures of all processes together; if `apart`, also those of the first and of the second
/// process. `load` is the load of one process, if the processes serve one; `throttled` is the share
/// of periods in which a quota stopped them.
pub fn sample(
    load: Option<&Load>,
    apart: bool,
    cpus: usize,
    outcomes: &[Outcome],
    throttled: Option<f64>,
) -> Sample {
    let sum = Outcome::sum(outcomes);
    let mut sample = Sample::default();
    latencies("", &sum, &mut sample);
    if let Some(load) = load {
        let seconds = load.time.as_secs_f64();
        let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.value("done") / seconds).collect();
        let all: f64 = rates.iter().sum();
        sample.add("jobs_per_s", all);
        sample.add("offered_per_s", sum.value("offered") / seconds);
        sample.add("unfinished_share", sum.value("unfinished") / sum.value("offered"));
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        sample.add("slowest_share", slowest * rates.len() as f64 / all);
        sample.add("cpu_share", sum.value("cpu_ns") / (seconds * 1e9 * cpus as f64));
        if sum.values.contains_key("control_ns") {
            sample.add("control_percent", 100.0 * sum.value("control_ns") / sum.value("cpu_ns"));
            sample.add("preemptions_per_s", sum.value("preemptions") / seconds);
            sample.add("run_queue_share", sum.value("wait_ns") / (seconds * 1e9 * cpus as f64));
        }
        if apart {
            for (name, (outcome, rate)) in ["first", "second"].iter().zip(outcomes.iter().zip(&rates)) {
                sample.add(format!("{name}_per_s"), *rate);
                latencies(&format!("{name}_"), outcome, &mut sample);
            }
            sample.add("first_over_second", rates[0] / rates[1]);
        }
    } else {
        sum.values.iter().for_each(|(name, value)| sample.add(name.clone(), *value));
    }
    sample.add("throttled_share", throttled.unwrap_or(f64::NAN));
    let processes = outcomes.iter().map(|outcome| outcome.values.clone()).collect();
    sample.with(&Output { histograms: sum.histograms, processes })
}

/// The percentiles of every histogram, each with its maximum.
fn latencies(start: &str, outcome: &Outcome, sample: &mut Sample) {
    for (name, histogram) in &outcome.histograms {
        sample.add_tail(&format!("{start}{name}_"), histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(done: f64, total_ns: u64) -> Outcome {
        let mut total = report::Histogram::new();
        total.record(total_ns);
        let values = [("done", done), ("offered", 2.0 * done), ("unfinished", done / 2.0), ("cpu_ns", 1e9)];
        Outcome::of([("total", total)], values)
    }

    #[test]
    fn two_processes_have_a_sum_and_figures_of_their_own() {
        let time = Duration::from_secs(2);
        let load = Load { rate_per_s: 1.0, poisson: false, phase: 0.0, pause: None, time, drain: time };
        let sample = sample(Some(&load), true, 2, &[outcome(10.0, 500), outcome(30.0, 700)], Some(0.5));
        let value = |name: &str| sample.values[name];
        assert_eq!((value("jobs_per_s"), value("slowest_share")), (20.0, 0.5));
        assert_eq!((value("first_per_s"), value("second_per_s")), (5.0, 15.0));
        assert!((value("first_over_second") - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((value("total_max_ns"), value("first_total_p99_ns")), (700.0, 500.0));
        assert_eq!(
            (value("unfinished_share"), value("cpu_share"), value("throttled_share")),
            (0.25, 0.5, 0.5)
        );
        assert!(!sample.values.contains_key("control_percent"), "nobody said what control costs");
        let output: Output = serde_json::from_str(sample.output.unwrap().get()).unwrap();
        assert_eq!((output.histograms["total"].count(), output.processes.len()), (2, 2));
    }

    #[test]
    fn a_figure_that_is_not_a_number_is_left_out() {
        let idle = Outcome::of([], [("idle_cpu_percent", 1.5)]);
        let sample = sample(None, false, 2, &[idle], None);
        assert_eq!(sample.values.len(), 1);
    }
}
