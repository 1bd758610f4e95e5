//! Threads that never want the same: no thread has to wait, and what is measured is the lock.
//!
//! W1 and W2 are the thesis' workloads: a range at a time, and sixteen, that are locked, written
//! and unlocked together. A range is 1 KiB of a region of 512 KiB. Each thread has a slice of it,
//! and goes through it range by range.

use super::request::Pattern;
use super::run::Run;
use super::{Plan, SPACE, Timing, Variant, conclude};
use crate::error::Error;
use crate::harness::Bench;
use baselines::range::SkipList;

/// Ranges that W2 holds at a time.
const BATCH: usize = 16;
/// What a lock that divides its keys among shards is thought to keep together.
const SHARD: usize = 16 * 1024;

impl Plan {
    /// Each thread its own slice, and one write for each range.
    pub(super) fn own(&self, threads: usize, batch: usize) -> Run {
        let pattern = Pattern::Own { space: SPACE };
        Run { threads, pattern, batch, touches: 1, whole: None, time: self.setup.time }
    }

    /// One thread, and nothing between lock and unlock.
    pub(super) fn single(&self, bench: &mut Bench) -> Result<(), Error> {
        let run = Run { touches: 0, ..self.own(1, 1) };
        let variants = Variant::all();
        self.compare(bench, conclude::SINGLE, &run, Timing::None, &variants)
    }

    /// W1.
    pub(super) fn w1(&self, bench: &mut Bench) -> Result<(), Error> {
        self.workload(bench, conclude::W1, 1)
    }

    /// W2.
    pub(super) fn w2(&self, bench: &mut Bench) -> Result<(), Error> {
        self.workload(bench, conclude::W2, BATCH)
    }

    fn workload(&self, bench: &mut Bench, case: &str, batch: usize) -> Result<(), Error> {
        let variants = Variant::all();
        for &threads in &self.setup.threads {
            let case = conclude::scaled(case, threads);
            self.compare(bench, &case, &self.own(threads, batch), Timing::Apart, &variants)?;
        }
        Ok(())
    }

    /// Figure 5.1: skip lists of more and more levels.
    pub(super) fn heights(&self, bench: &mut Bench) -> Result<(), Error> {
        let step = if self.setup.quick { 5 } else { 1 };
        let heights: Vec<Variant> =
            (1..=SkipList::<u64>::HEIGHT_MAX).step_by(step).map(Variant::of_height).collect();
        for (workload, batch) in [(conclude::W1, 1), (conclude::W2, BATCH)] {
            let case = conclude::scaled(&conclude::heights(workload), self.many());
            self.compare(bench, &case, &self.own(self.many(), batch), Timing::Apart, &heights)?;
        }
        Ok(())
    }

    /// All threads in one place, though no thread wants what others have.
    pub(super) fn shard(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = Variant::all();
        for &threads in self.setup.threads.iter().filter(|&&threads| threads > 1) {
            let run = Run { pattern: Pattern::Own { space: SHARD }, ..self.own(threads, 1) };
            self.compare(bench, &conclude::scaled(conclude::SHARD, threads), &run, Timing::Apart, &variants)?;
        }
        Ok(())
    }
}
