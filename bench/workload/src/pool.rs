//! `manx bench pool`: pools of threads beside each other and beside neighbours, after Jeffery,
//! Jensen and Mortier's "Reducing Tail Latencies Through Environment- and Neighbour-aware Thread
//! Management", and beyond it.
//!
//! Every measured pool is in a process of its own, which computes `fib(30)` for requests of an open
//! loop. All processes of a run begin at one signal. Queue, service and total latency are kept
//! whole; a percentile never comes without its maximum.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`kind`], [`executor`] | the pools that are compared, and how each gets a job |
//! | [`work`], [`serve`], [`rest`] | the computation; the open loop; bursts, idleness and jobs that do nothing |
//! | [`spec`], [`process`], [`leader`] | what a process is told and says; a process; a crowd of them |
//! | [`usage`], [`group`], [`go`] | CPU time by thread; control groups; the same work in Go |
//! | [`variant`], [`sample`] | a version of a case and its run; figures |
//! | `alone`, `quota`, `together`, `at_rest`, [`part`] | the parts of the experiment |
//! | `cases`, `conclude`, `judge`, `draw` | names, tables, targets, pictures |

mod alone;
mod at_rest;
mod cases;
mod conclude;
mod draw;
pub mod executor;
pub mod go;
pub mod group;
mod judge;
pub mod kind;
pub mod leader;
pub mod part;
pub mod process;
mod quota;
pub mod rest;
pub mod sample;
pub mod serve;
pub mod spec;
mod together;
pub mod usage;
pub mod variant;
pub mod work;

pub use conclude::conclude;
pub use draw::draw;
pub use kind::Kind;
pub use part::Part;

use crate::error::Error;
use crate::harness::{Bench, Case};
use group::Hierarchy;
use report::Report;
use report::figure::{duration, three_digits};
use spec::{Load, Task};
use std::path::PathBuf;
use std::time::Duration;
use variant::{Stage, Variant};
use work::Capacity;

/// Jobs a second that are more than a machine of two CPUs does, as the peers were measured with.
const OVERLOAD_PER_S: f64 = 1200.0;
/// Where that is no overload, the overload is this number of times what the machine does.
const OVERLOAD: f64 = 1.1;
/// A load that leaves room: this part of what the machine does.
const ROOM: f64 = 0.6;
/// What the machine does is measured for no longer than this.
const CAPACITY: Duration = Duration::from_secs(1);
/// Neighbours' first jobs lie apart by the golden section, so that no two processes get theirs at
/// the same moment.
const GOLDEN: f64 = 0.618_033_988_75;

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
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
struct Plan {
    setup: Setup,
    stage: Stage,
    capacity: Capacity,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a process that failed.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus().len();
    let capacity = work::capacity(cpus, (setup.time / 5).min(CAPACITY));
    let hierarchy = Hierarchy::find(quota::largest(cpus));
    let stage = Stage { own: setup.own.clone(), hierarchy, sessions: setup.sessions, cpus };
    let plan = Plan { setup, stage, capacity };
    plan.notes(bench);
    Part::measure(&plan.setup.parts, &plan, bench)
}

impl Plan {
    fn notes(&self, bench: &mut Bench) {
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

    /// True if such pools are to be measured.
    fn wants(&self, kind: Kind) -> bool {
        self.setup.kinds.contains(&kind)
    }

    fn overload_per_s(&self) -> f64 {
        OVERLOAD_PER_S.max(OVERLOAD * self.capacity.jobs_per_s)
    }

    /// Returns a load of `rate_per_s` jobs a second for the process of this number; what waits at
    /// the end may be done within the drain.
    fn load(&self, rate_per_s: f64, index: usize, drain: Duration) -> Load {
        let phase = (index as f64 * GOLDEN).fract();
        Load { rate_per_s, poisson: self.setup.poisson, phase, pause: None, time: self.setup.time, drain }
    }

    /// More than the machine does. What waits at the end is left.
    fn overload(&self, index: usize) -> Task {
        Task::Serve(self.load(self.overload_per_s(), index, Duration::ZERO))
    }

    /// Returns sixty percent of what the machine does, divided by the number of processes.
    fn room(&self, index: usize, processes: usize) -> Task {
        let rate_per_s = ROOM * self.capacity.jobs_per_s / processes as f64;
        Task::Serve(self.load(rate_per_s, index, self.setup.time / 2))
    }

    fn compare(&self, bench: &mut Bench, case: &str, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| crate::verdict::watched(report, case, judge::figure);
        let case = Case { name: case, variants: &names, expected: self.setup.time };
        bench.compare(case, watch, |at, _| variants[at].run(&self.stage))
    }

    /// Of a sweep all of it, or what a smoke check takes of it.
    fn sweep<T: Copy>(&self, all: &[T], quick: &[T]) -> Vec<T> {
        if self.setup.quick { quick.to_vec() } else { all.to_vec() }
    }
}
