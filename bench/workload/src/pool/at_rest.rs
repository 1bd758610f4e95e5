//! Pools that have nothing to do, that suddenly have, and that do nothing very often.

use super::cases;
use super::kind::Kind;
use super::plan::Plan;
use super::spec::Task;
use super::variant::{Variant, process};
use crate::error::Error;
use crate::harness::Bench;
use std::time::Duration;

/// The time of nothing before a burst: many ticks of any pool.
const REST: Duration = Duration::from_millis(250);
/// Jobs of a batch, and batches of a run.
const JOBS: u32 = 100_000;
const BATCHES: u32 = 5;
const QUICK_JOBS: u32 = 2_000;

impl Plan {
    /// A version for each kind that has threads of its own here.
    fn each(&self, task: &Task) -> Vec<Variant> {
        let of = |kind: Kind| Variant::of(kind.name(), vec![process(kind, self.stage.cpus, task.clone())]);
        KINDS.iter().copied().filter(|kind| self.wants(*kind)).map(of).collect()
    }

    /// From nothing to do to all workers.
    pub(super) fn burst(&self, bench: &mut Bench) -> Result<(), Error> {
        let times = (self.time.as_secs_f64() / REST.as_secs_f64()).ceil().max(1.0) as u32;
        let task = Task::Burst { times, rest: REST };
        self.compare(bench, cases::BURST, &self.each(&task))
    }

    /// Nothing to do.
    pub(super) fn idle(&self, bench: &mut Bench) -> Result<(), Error> {
        let task = Task::Idle { time: self.time };
        self.compare(bench, cases::IDLE, &self.each(&task))
    }

    /// Jobs that do nothing.
    pub(super) fn submit(&self, bench: &mut Bench) -> Result<(), Error> {
        let jobs = if self.quick { QUICK_JOBS } else { JOBS };
        for (case, inside) in [(cases::SUBMIT_OUTSIDE, false), (cases::SUBMIT_INSIDE, true)] {
            let task = Task::Submit { jobs, batches: BATCHES, inside };
            self.compare(bench, case, &self.each(&task))?;
        }
        Ok(())
    }
}

/// The kinds that differ when they are alone.
const KINDS: &[Kind] = &[
    Kind::Ignorant,
    Kind::FriendlyPool,
    Kind::Manx,
    Kind::Rayon,
    Kind::Tokio,
    Kind::RayonGate,
    Kind::TokioGate,
];
