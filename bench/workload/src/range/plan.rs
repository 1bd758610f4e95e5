//! What the parts of the experiment have in common: the settings, and how a case is measured.

use super::competitor::{Competitor, Measured};
use super::conclude;
use super::interfaces::{Owners, Tasks};
use super::run::{Measurement, Mode, Once, Run, run_apart};
use super::strings::{Shape, Strings};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use baselines::range::SkipList;
use manx::range::{RangeLock, RawRangeLock};
use report::sheet::size;
use report::{Compared, Histogram, Report};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The default numbers of threads.
pub const THREADS: [usize; 3] = [1, 2, 8];
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

    pub(super) fn compare(
        &self,
        bench: &mut Bench,
        case: &str,
        run: &Run,
        timing: Timing,
        variants: &[Variant],
    ) -> Result<(), Error> {
        let expected = expected(run.time);
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
            if self.setup.check { Vec::new() } else { conclude::watched(report, case) }
        };
        bench.compare(Case { name: case, variants, expected }, watch, |at, _| run(at))
    }

    pub(super) fn once(&self, variant: &Variant, run: &Run, timing: Timing) -> Result<Sample, String> {
        if self.setup.check {
            return Ok(checked(&variant.once(run, Mode::Check)?));
        }
        Ok(match timing {
            Timing::None => sample(&variant.once(run, Mode::Count)?, Measurement::default()),
            Timing::Apart => {
                let counted = variant.once(run, Mode::Count)?;
                let timed = Run { time: run.time / TIMED_PART, ..run.clone() };
                sample(&counted, variant.once(&timed, Mode::Time)?)
            }
            Timing::Within => {
                let timed = variant.once(run, Mode::Time)?;
                let counted = Measurement {
                    pairs_per_s: timed.pairs_per_s,
                    slowest_share: timed.slowest_share,
                    ..Measurement::default()
                };
                sample(&counted, timed)
            }
        })
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

pub(super) const SINGLE: &str = "single, lock and unlock";
pub(super) const W1: &str = "w1";
pub(super) const W2: &str = "w2";
pub(super) const SHARD: &str = "shard, all within 16 KiB";
pub(super) const KEYS: &str = "keys, strings and integers";
/// The same, without any work between lock and unlock.
pub(super) const KEYS_BARE: &str = "keys, lock and unlock";
pub(super) const OVERLAP: &str = "overlap";
pub(super) const CONTENDED: &str = "contended, 8 threads, 31 % overlap";
pub(super) const SHARED: &str = "shared";
pub(super) const WIDTHS: &str = "widths, 8 threads and the whole space";
pub(super) const MEMORY: &str = "memory";
pub(super) const MEMORY_LASTING: &str = "memory, 8 threads for long";
/// The prefixes of the names of all cases of a part.
pub(super) const BLOB: &str = "blob";
pub(super) const FILE: &str = "file";
pub(super) const COUNTERS: &str = "counters";
/// The size of the thesis' records, in bytes.
pub(super) const THESIS: usize = 1 << 20;

/// The name of a case with `threads` threads.
pub(super) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The name of a case in which skip lists are of different heights.
pub(super) fn heights(workload: &str) -> String {
    format!("heights, {workload}")
}

/// The name of a case in which `percent` of a hundred pairs overlap.
pub(super) fn overlap(percent: u32) -> String {
    format!("{OVERLAP}, {percent} %")
}

/// The name of a case in which `percent` of a hundred requests read.
pub(super) fn shared(percent: u32) -> String {
    format!("{SHARED}, {percent} % read")
}

/// The name of a case with objects of `record_bytes` bytes.
pub(super) fn blob(record_bytes: usize) -> String {
    format!("{BLOB}, {}", size(record_bytes as f64))
}

crate::parts::parts! {
    /// One thread that locks and unlocks and does nothing else.
    Single = "single" by single,
    /// A range at a time, each thread its own slice.
    W1 = "w1" by w1,
    /// Sixteen ranges at a time, each thread its own slice.
    W2 = "w2" by w2,
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

/// The name of the default lock with one shard and room for one range.
pub(super) const SMALLEST: &str = "manx, smallest";

/// One version of a case.
#[derive(Clone)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) competitor: Competitor,
    form: Form,
}

/// The form of a lock that has several.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// The one that users get.
    Usual,
    /// A skip list with this number of levels.
    Height(usize),
    /// The default lock with one shard and room for one range.
    Smallest,
    /// The default lock with an owner for each range.
    Owners,
    /// The default lock with a task for each range.
    Tasks,
    /// The default lock of strings of this shape.
    Strings(Shape),
}

impl Variant {
    pub(super) fn of(competitor: Competitor) -> Variant {
        Variant { name: competitor.name().into(), competitor, form: Form::Usual }
    }

    /// Every competitor that locks.
    pub(super) fn locks() -> Vec<Variant> {
        Competitor::locks().map(Variant::of).collect()
    }

    /// The same, and no lock at all.
    pub(super) fn all() -> Vec<Variant> {
        Competitor::available().map(Variant::of).collect()
    }

    /// A skip list with this number of levels.
    pub(super) fn of_height(height: usize) -> Variant {
        let name = format!("height {height}");
        Variant { name, competitor: Competitor::SkipList, form: Form::Height(height) }
    }

    /// The default lock in a form.
    pub(super) fn manx(name: &str, form: Form) -> Variant {
        Variant { name: name.into(), competitor: Competitor::Manx, form }
    }

    /// Measures locks of this version, for keys below `space`. Ranges are blocks of `unit`
    /// keys, if that is known.
    pub(super) fn measure<M: Measured>(&self, space: u64, unit: Option<u64>, what: M) -> M::Output {
        let list = |height| SkipList::with_height(height).expect("the height is within the bounds");
        match self.form {
            Form::Usual => self.competitor.measure_blocks(space, unit, what),
            Form::Height(height) => what.with(|| list(height)),
            Form::Smallest => what.with(RangeLock::<u64, 1, 1>::new),
            Form::Owners => what.with(|| Owners::with_space(space)),
            Form::Tasks => what.with(|| Tasks::with_space(space)),
            Form::Strings(shape) => what.with(|| Strings::new(shape)),
        }
    }

    pub(super) fn once(&self, run: &Run, mode: Mode) -> Result<Measurement, String> {
        let unit = run.pattern.unit(run.threads).map(|unit| unit as u64);
        let space = run.pattern.space() as u64;
        run_apart(self.competitor.leaks(), || self.measure(space, unit, Once(run, mode)))
    }
}

/// Ranges locked and unlocked per second, by all threads.
pub(super) const PAIRS: &str = "pairs_per_s";

/// What is kept of a run beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Output {
    /// How long acquisitions took
    pub acquire: Histogram,
    /// How long the whole space took
    #[serde(default)]
    pub whole: Histogram,
}

/// Makes the sample of a run that counted and of a run that timed; both may be the same run.
pub(super) fn sample(counted: &Measurement, timed: Measurement) -> Sample {
    let mut sample = Sample::default();
    sample.add(PAIRS, counted.pairs_per_s);
    sample.add("slowest_share", counted.slowest_share);
    for (who, latencies) in [("acquire", &timed.latencies), ("whole", &timed.whole)] {
        if latencies.count() > 0 {
            sample.add(format!("{who}_count"), latencies.count() as f64);
            sample.add_tail(&format!("{who}_"), latencies);
        }
    }
    if timed.latencies.count() > 0 {
        sample.add("hold_max_ns", timed.hold_ns_max as f64);
    }
    if timed.whole.count() > 0 {
        sample.add("late_max_ns", timed.late_ns_max as f64);
        // Twice the longest hold, and the delay of the thread that is woken.
        let allowed_ns = 2 * timed.hold_ns_max + timed.late_ns_max;
        sample.add("whole_over_allowed", timed.whole.summary().max_ns as f64 / allowed_ns.max(1) as f64);
    }
    sample.with(&Output { acquire: timed.latencies, whole: timed.whole })
}

/// The results of a run that only counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Ranges locked and unlocked by each thread
    pub thread_pairs: Vec<u64>,
}

/// Of a run that only counted, with what each thread did.
pub(super) fn counted(found: &Measurement) -> Sample {
    Sample::of([(PAIRS, found.pairs_per_s), ("slowest_share", found.slowest_share)])
        .with(&Counted { thread_pairs: found.thread_pairs.clone() })
}

/// Of a run that checked.
pub(super) fn checked(found: &Measurement) -> Sample {
    Sample::of([("checked_pairs", found.pairs as f64), ("violations", found.violations as f64)])
}
