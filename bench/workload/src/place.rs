//! Where runs are made: on this machine, or on a simulated one. The runs are the same.
//!
//! Each run on a simulated machine has a seed, one more than that of the run before. With the same
//! options, a run with the same number has the same seed, and does the same to the nanosecond.

use crate::harness::Bench;
use contention::lock::Lock;
use contention::measurement::Measurement;
use contention::run::Run;
use platform_sim::machine::Machine;
use platform_sim::simulation;
use std::cell::Cell;

/// Where runs are made.
#[derive(Debug, Default)]
pub struct Place {
    machine: Option<Machine>,
    seed: Cell<u64>,
}

impl Place {
    /// On this machine.
    pub fn here() -> Place {
        Place::default()
    }

    /// On this simulated machine; the first run has this seed.
    pub fn simulated(machine: Machine, seed: u64) -> Place {
        Place { machine: Some(machine), seed: Cell::new(seed) }
    }

    /// The simulated machine, if there is one.
    pub fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref()
    }

    /// Says in the report where the runs are made.
    pub fn describe(&self, bench: &mut Bench) {
        let Some(machine) = &self.machine else { return };
        bench.report.machine.processor = format!("simulated: {}", machine.source);
        bench.report.machine.cpus = machine.cpus().len();
        bench.note("simulated: times are virtual; a run is the same each time, and `seed` is its number");
    }

    /// The seed of the next run.
    pub fn seed(&self) -> u64 {
        self.seed.get()
    }

    /// Makes a run.
    ///
    /// # Errors
    /// As [`contend::run`].
    pub fn run(&self, lock: Lock, run: &Run) -> Result<Measurement, String> {
        let Some(machine) = &self.machine else { return contend::run(lock, run) };
        let seed = self.seed.replace(self.seed.get().wrapping_add(1));
        let run = run.clone();
        simulation::run(machine, seed, move || contend_sim::run(lock, &run)).value
    }
}
