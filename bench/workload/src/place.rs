//! Where runs are made: on this machine, or on a simulated one. The runs are the same.
//!
//! Each run on a simulated machine has a seed, one more than that of the run before. With the same
//! options, a run with the same number has the same seed, and does the same to the nanosecond.

use crate::harness::Bench;
use contention::jobs::{Jobs, Served};
use contention::lock::Lock;
use contention::ranges::{RangeLock, Ranges, Taken};
use contention::run::{Burn, Measurement, Run};
use contention::schedule::Pattern;
use platform_sim::chance::Chance;
use platform_sim::machine::{Machine, Quota};
use platform_sim::trace::Waits;
use platform_sim::{simulation, thread};
use report::Histogram;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::time::Duration;

/// Events of a timeline: some ten megabytes.
const EVENTS_MAX: usize = 200_000;
/// Linux' defaults: the period of a quota, and what a CPU takes of it at a time.
const PERIOD_NS: u64 = 100_000_000;
const QUOTA_SLICE_NS: u64 = 5_000_000;

/// Where runs are made.
#[derive(Debug, Default)]
pub struct Place {
    machine: Option<Machine>,
    name: String,
    seed: Cell<u64>,
    /// Where the timeline of the next run goes.
    trace: RefCell<Option<PathBuf>>,
}

impl Place {
    /// On this machine.
    pub fn here() -> Place {
        Place::default()
    }

    /// On this simulated machine, which has a name; the first run has this seed.
    pub fn simulated(name: &str, machine: Machine, seed: u64) -> Place {
        Place { machine: Some(machine), name: name.into(), seed: Cell::new(seed), ..Place::default() }
    }

    /// The timeline of the first run is written to this file.
    #[must_use]
    pub fn traced(self, path: Option<PathBuf>) -> Place {
        Place { trace: RefCell::new(path), ..self }
    }

    /// The simulated machine, if there is one.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// Says in the report where the runs are made. On a simulated machine they are in virtual time.
    pub fn describe(&self, bench: &mut Bench) {
        let Some(machine) = &self.machine else { return };
        bench.in_virtual_time();
        bench.report.machine = report::Machine {
            processor: format!("{}, simulated", self.name),
            cpus: machine.cpus().len(),
            kernel: "in virtual time".into(),
            commit: bench.report.machine.commit.take(),
            ..report::Machine::default()
        };
        bench.note(format!("{}: {}", self.name, machine.source));
        bench.note("a run is the same each time; `seed` is the number of the first one");
    }

    /// The seed of a run that is made now.
    pub(crate) fn next_seed(&self) -> u64 {
        self.seed.replace(self.seed.get().wrapping_add(1))
    }

    /// The seed of the next run.
    pub fn seed(&self) -> u64 {
        self.seed.get()
    }

    /// Lets two threads do this, on the first two CPUs of the simulated machine. Returns the times
    /// that they saw, and what the timeline has of them.
    ///
    /// # Errors
    /// As [`contend::schedule::measure`], or there is no simulated machine.
    pub fn schedule(&self, pattern: Pattern, time: Duration) -> Result<(Histogram, Waits), String> {
        let known = self.machine.as_ref().ok_or("no simulated machine")?;
        let quota = pattern.quota_cpus().map(|cpus| Quota {
            quota_ns: (cpus * PERIOD_NS as f64) as u64,
            period_ns: PERIOD_NS,
            slice_ns: QUOTA_SLICE_NS,
        });
        let machine = Machine { quota: quota.or(known.quota), ..known.clone() };
        let run = move || contend_sim::schedule::measure(pattern, [0, 1], time, || Ok(()));
        let (outcome, timeline) = simulation::run_traced(&machine, self.next_seed(), EVENTS_MAX, run);
        outcome.value.map(|times| (times, timeline.waits()))
    }

    /// Lets pools do jobs on the simulated machine: one pool in each of this number of processes,
    /// each with these jobs. The seed draws when the first job comes to each.
    ///
    /// # Errors
    /// As [`contend::jobs::serve`], or there is no simulated machine.
    pub fn serve(&self, jobs: &Jobs, processes: usize) -> Result<Vec<Served>, String> {
        let machine = self.machine.as_ref().ok_or("no simulated machine")?;
        let (jobs, seed) = (jobs.clone(), self.next_seed());
        let run = move || {
            let mut chance = Chance::new(seed);
            let mut phase_ns = || (chance.unit() * jobs.every_ns as f64) as u64;
            let each = (0..processes).map(|_| Jobs { phase_ns: phase_ns(), ..jobs.clone() });
            let started: Vec<_> =
                each.map(|jobs| thread::spawn_process(move || contend_sim::jobs::serve(&jobs))).collect();
            started.into_iter().map(|process| process.join().map_err(|_| "a thread panicked")?).collect()
        };
        simulation::run(machine, seed, run).value
    }

    /// Lets threads lock disjoint ranges.
    ///
    /// # Errors
    /// As [`contend::ranges::run`].
    pub fn ranges(&self, lock: RangeLock, run: &Ranges) -> Result<Taken, String> {
        let Some(machine) = &self.machine else { return contend::ranges::run(lock, Burn::Time, run) };
        let (run, burn) = (*run, Burn::Rounds { per_us: contend_sim::burn::ROUNDS_PER_US });
        simulation::run(machine, self.next_seed(), move || contend_sim::ranges::run(lock, burn, &run)).value
    }

    /// Makes a run.
    ///
    /// # Errors
    /// As [`contend::run`], or a timeline that cannot be written.
    pub fn run(&self, lock: Lock, run: &Run) -> Result<Measurement, String> {
        let Some(machine) = &self.machine else { return contend::run(lock, run) };
        let seed = self.next_seed();
        let run = run.clone();
        let trace = self.trace.take();
        let events_max = if trace.is_some() { EVENTS_MAX } else { 0 };
        let (outcome, timeline) =
            simulation::run_traced(machine, seed, events_max, move || contend_sim::run(lock, &run));
        if let Some(path) = trace {
            let unwritable = |error| format!("{}: {error}", path.display());
            std::fs::write(&path, timeline.json()).map_err(unwritable)?;
        }
        outcome.value
    }
}
