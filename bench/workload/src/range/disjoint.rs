//! Threads whose requests never conflict: no thread has to wait, so the figure is the lock's cost.
//!
//! W1 and W2 are the thesis' workloads: a thread locks, writes and unlocks one range at a time, or
//! sixteen together. A range is 1 KiB of a region of 512 KiB. Each thread has a slice of the region
//! and goes through it range by range.

use super::case;
use super::competitor::Competitor;
use super::plan::{Plan, Timing};
use super::request::{Pattern, SPACE};
use super::run::Run;
use super::strings::{RANGES, Shape};
use super::variant::{Form, Variant};
use crate::error::Error;
use crate::harness::Bench;
use baselines::range::SkipList;

/// Ranges that W2 holds at a time.
const BATCH: usize = 16;
/// The keys that belong to one shard of a sharded lock.
const SHARD: usize = 16 * 1024;

impl Plan {
    /// Each thread has its own slice and writes each range once.
    pub(super) fn own(&self, threads: usize, batch: usize) -> Run {
        let pattern = Pattern::Own { space: SPACE };
        Run { threads, pattern, batch, touches: 1, whole: None, time: self.setup.time }
    }

    /// One thread, and nothing between lock and unlock.
    pub(super) fn single(&self, bench: &mut Bench) -> Result<(), Error> {
        let run = Run { touches: 0, ..self.own(1, 1) };
        let variants = Variant::all();
        self.compare(bench, case::SINGLE, &run, Timing::None, &variants)
    }

    /// W1.
    pub(super) fn w1(&self, bench: &mut Bench) -> Result<(), Error> {
        self.workload(bench, case::W1, 1)
    }

    /// W2.
    pub(super) fn w2(&self, bench: &mut Bench) -> Result<(), Error> {
        self.workload(bench, case::W2, BATCH)
    }

    fn workload(&self, bench: &mut Bench, case: &str, batch: usize) -> Result<(), Error> {
        let variants = Variant::all();
        for &threads in &self.setup.threads {
            let case = case::scaled(case, threads);
            self.compare(bench, &case, &self.own(threads, batch), Timing::Apart, &variants)?;
        }
        Ok(())
    }

    /// Figure 5.1: skip lists of more and more levels.
    pub(super) fn heights(&self, bench: &mut Bench) -> Result<(), Error> {
        let step = if self.setup.quick { 5 } else { 1 };
        let heights: Vec<Variant> =
            (1..=SkipList::<u64>::HEIGHT_MAX).step_by(step).map(Variant::of_height).collect();
        for (workload, batch) in [(case::W1, 1), (case::W2, BATCH)] {
            let case = case::scaled(&case::heights(workload), self.many());
            self.compare(bench, &case, &self.own(self.many(), batch), Timing::Apart, &heights)?;
        }
        Ok(())
    }

    /// All threads in one shard, without conflicts.
    pub(super) fn shard(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = Variant::all();
        for &threads in self.setup.threads.iter().filter(|&&threads| threads > 1) {
            let run = Run { pattern: Pattern::Own { space: SHARD }, ..self.own(threads, 1) };
            self.compare(bench, &case::scaled(case::SHARD, threads), &run, Timing::Apart, &variants)?;
        }
        Ok(())
    }

    /// Strings beside integers, with the work of W1 and with none.
    pub(super) fn keys(&self, bench: &mut Bench) -> Result<(), Error> {
        let strings = |shape: Shape| Variant::manx(shape.name(), Form::Strings(shape));
        let variants: Vec<Variant> =
            [Variant::of(Competitor::Manx)].into_iter().chain(Shape::ALL.map(strings)).collect();
        // With more threads, ranges are narrower than the ranges that have strings.
        let few = |threads: &&usize| **threads <= RANGES;
        for &threads in self.setup.threads.iter().filter(few) {
            let own = self.own(threads, 1);
            self.compare(bench, &case::scaled(case::KEYS, threads), &own, Timing::None, &variants)?;
            let bare = Run { touches: 0, ..own };
            let case = case::scaled(case::KEYS_BARE, threads);
            self.compare(bench, &case, &bare, Timing::None, &variants)?;
        }
        Ok(())
    }
}
