//! Threads whose requests never conflict: no thread has to wait, so the figure is the lock's cost.
//!
//! W1 and W2 are the thesis' workloads: a thread locks, writes and unlocks one range at a time, or
//! sixteen together. A range is 1 KiB of a region of 512 KiB. Each thread has a slice of the region
//! and goes through it range by range. That is kind to a lock that shards the space: a thread
//! mostly finds its shard in its cache. The author's own test, which is in his fork of LeanStore
//! (`test/sync/test_scale.cc`), shuffles a million adjacent ranges and deals them to the threads
//! (the part `shuffled`). As it is stored there, its W1 lets the thesis' lock alone step over 15 of
//! 16 ranges, writes 256 bytes in place of the text's 1 KiB, and counts the page faults of fresh
//! memory. Here each lock takes each range, and all pages are there before.

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

    /// W1 and W2 as the author ran them. There are no latencies: each run makes its region, a
    /// gibibyte for a million ranges, anew.
    pub(super) fn shuffled(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = Variant::all();
        let pattern = Pattern::Shuffled { ranges: self.setup.ranges };
        bench.note(format!("shuffled: {} ranges of 1 KiB, dealt to the threads", self.setup.ranges));
        for (case, batch) in [(case::W1_SHUFFLED, 1), (case::W2_SHUFFLED, BATCH)] {
            for &threads in &self.setup.threads {
                let run = Run { pattern, ..self.own(threads, batch) };
                self.compare(bench, &case::scaled(case, threads), &run, Timing::None, &variants)?;
            }
        }
        Ok(())
    }

    /// Figure 5.1: skip lists of more and more levels, by halves as in the thesis.
    pub(super) fn heights(&self, bench: &mut Bench) -> Result<(), Error> {
        let pattern = Pattern::Shuffled { ranges: self.setup.ranges };
        let quick = |height: &usize| !self.setup.quick || *height == 1 || height.is_multiple_of(5);
        let heights: Vec<Variant> =
            (1..=SkipList::<u64>::HEIGHT_MAX).filter(quick).map(Variant::of_height).collect();
        for (workload, batch) in [(case::W1_SHUFFLED, 1), (case::W2_SHUFFLED, BATCH)] {
            let case = case::scaled(&case::heights(workload), self.many());
            let run = Run { pattern, ..self.own(self.many(), batch) };
            self.compare(bench, &case, &run, Timing::None, &heights)?;
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
