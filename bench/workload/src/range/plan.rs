//! What the parts of the experiment have in common: the settings, and how a case is measured.

use super::competitor::Competitor;
use super::judge;
use super::run::{Measurement, Mode, Run};
use super::variant::{self, Variant};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::{Compared, Report};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The default numbers of threads.
pub const THREADS: [usize; 3] = [1, 2, 8];
/// The author's number of shuffled ranges.
pub const RANGES: usize = 1_000_000;
/// That of a smoke check.
pub const RANGES_QUICK: usize = 16_384;
/// A separate run that times takes the time of a run that counts, divided by this.
const TIMED_PART: u32 = 4;
/// A run in which threads wait for each other takes this number of times the usual time. So it has
/// a tail, and a thread's share does not depend on single turns of the scheduler.
pub(super) const LONG: u32 = 3;

/// The settings of the experiment.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// A smoke check
    pub quick: bool,
    /// Look for violations instead of measuring
    pub check: bool,
    /// The measured time of a run
    pub time: Duration,
    /// The numbers of threads, for cases that do not set their own
    pub threads: Vec<usize>,
    /// How many ranges are shuffled in the author's W1 and W2
    pub ranges: usize,
    /// The names of the locks to measure; all of them if there are none
    pub locks: Vec<String>,
    /// Of `blob` only what the thesis has
    pub thesis: bool,
}

/// The source of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timing {
    /// There are none.
    None,
    /// A separate run, which is shorter.
    Apart,
    /// The run that counts: holds are long, so the clock does not matter.
    Within,
}

/// What was found by a run that also checks the bytes that it brings or leaves.
#[derive(Debug, Serialize, Deserialize)]
pub struct Checked {
    /// The figures of the run
    pub sample: Sample,
    /// What was checked: all reads or writes, also those of the warm-up
    pub checked: u64,
    /// The number of reads that brought the wrong bytes, or of writes that were torn
    pub wrong: u64,
}

/// The plan of an experiment, for all parts.
pub(super) struct Plan {
    pub(super) setup: Setup,
}

/// The names of versions.
pub(super) fn names(variants: &[Variant]) -> Vec<&str> {
    variants.iter().map(|variant| variant.name.as_str()).collect()
}

/// The time that a run is expected to take, with its warm-up.
pub(super) fn expected(time: Duration) -> Duration {
    time * 3 / 2
}

impl Plan {
    /// Returns the number of threads where the experiment does not sweep it: the largest that was
    /// asked for.
    pub(super) fn many(&self) -> usize {
        self.setup.threads.iter().copied().max().unwrap_or(1)
    }

    /// Whether this lock is to be measured.
    pub(super) fn is_asked_for(&self, lock: Competitor) -> bool {
        self.setup.locks.is_empty() || self.setup.locks.iter().any(|name| name == lock.name())
    }

    /// Of these versions, the versions of the locks that were asked for.
    pub(super) fn chosen(&self, variants: &[Variant]) -> Vec<Variant> {
        variants.iter().filter(|variant| self.is_asked_for(variant.competitor)).cloned().collect()
    }

    pub(super) fn compare(
        &self,
        bench: &mut Bench,
        case: &str,
        run: &Run,
        timing: Timing,
        variants: &[Variant],
    ) -> Result<(), Error> {
        let expected = expected(run.time);
        let variants = &self.chosen(variants);
        self.compare_by(bench, case, &names(variants), expected, |at| {
            let variant = &variants[at];
            self.once(variant, run, timing).map_err(|what| Error::failed(format!("{}: {what}", variant.name)))
        })
    }

    /// Measures a case: `run` runs a version once. It goes on until the ratios of its targets are
    /// known; where locks are checked, nothing is timed.
    pub(super) fn compare_by(
        &self,
        bench: &mut Bench,
        case: &str,
        variants: &[&str],
        expected: Duration,
        mut run: impl FnMut(usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        let watch = |report: &Report| -> Vec<Compared> {
            if self.setup.check { Vec::new() } else { judge::watched(report, case) }
        };
        bench.compare(Case { name: case, variants, expected }, watch, |at, _| run(at))
    }

    pub(super) fn once(&self, variant: &Variant, run: &Run, timing: Timing) -> Result<Sample, String> {
        if self.setup.check {
            let found = variant.once(run, Mode::Check)?;
            return Ok(variant::checked(found.pairs, found.violations));
        }
        Ok(match timing {
            Timing::None => variant::sample(&variant.once(run, Mode::Count)?, Measurement::default()),
            Timing::Apart => {
                let counted = variant.once(run, Mode::Count)?;
                let timed = Run { time: run.time / TIMED_PART, ..run.clone() };
                variant::sample(&counted, variant.once(&timed, Mode::Time)?)
            }
            Timing::Within => {
                let timed = variant.once(run, Mode::Time)?;
                let counted = Measurement {
                    pairs_per_s: timed.pairs_per_s,
                    slowest_share: timed.slowest_share,
                    ..Measurement::default()
                };
                variant::sample(&counted, timed)
            }
        })
    }

    /// The sample of a run that checks its bytes; an error if some were `wrong`, in these words.
    pub(super) fn checked(&self, found: Checked, wrong: &str) -> Result<Sample, String> {
        if self.setup.check {
            return Ok(variant::checked(found.checked, found.wrong));
        }
        if found.wrong > 0 { Err(format!("{} {wrong}", found.wrong)) } else { Ok(found.sample) }
    }

    /// Returns an error if a lock did not exclude.
    pub(super) fn caught(&self, bench: &mut Bench) -> Result<(), Error> {
        let violated = |run: &&report::Run| run.values.get("violations").is_some_and(|&count| count > 0.0);
        let first = bench.report.runs.iter().find(violated);
        let Some(what) = first.map(|run| {
            let (violations, pairs) = (run.values["violations"], run.values["checked_pairs"]);
            format!("{}, {}: {violations} violations in {pairs} pairs", run.variant, run.case)
        }) else {
            return Ok(());
        };
        bench.complete();
        Err(Error::Failed { what, stderr: "the lock does not exclude: two had one word at once".into() })
    }
}

crate::parts::parts! {
    /// One thread that locks and unlocks and does nothing else.
    Single = "single" by single,
    /// A range at a time, each thread its own slice.
    W1 = "w1" by w1,
    /// Sixteen ranges at a time, each thread its own slice.
    W2 = "w2" by w2,
    /// Both as the author ran them: shuffled ranges, dealt to the threads.
    Shuffled = "shuffled" by shuffled,
    /// The slices of all threads within 16 KiB.
    Shard = "shard" by shard,
    /// Strings instead of integers.
    Keys = "keys" by keys,
    /// Eight threads at seven kilobytes.
    Contended = "contended" by contended,
    /// Ranges of many widths, and now and then the whole space.
    Widths = "widths" by widths,
    /// What a lock occupies, and what is left behind by its use.
    Memory = "memory" by memory,
    /// W1 and W2 with skip lists of more and more levels.
    Heights = "heights" by heights,
    /// More and more requests that overlap others'.
    Overlap = "overlap" by overlap,
    /// Some threads only read.
    Shared = "shared" by shared,
    /// Large objects, each shown in one piece in an area that all share.
    Blob = "blob" by blob,
    /// Writes to one file.
    File = "file" by file,
    /// Cycles, instructions and misses.
    Counters = "counters" by counters,
    /// Throughput under contention, over threads, holds, overlap and access.
    Grid = "grid" by grid,
}
