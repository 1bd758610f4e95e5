//! The versions of a case: a competitor as it is, or the default lock in one of its forms.

use super::competitor::{Competitor, Measured};
use super::interfaces::{Owners, Tasks};
use super::run::{Measurement, Mode, Once, Run, run_apart};
use super::strings::{Shape, Strings};
use crate::harness::Sample;
use baselines::range::SkipList;
use manx::range::{RangeLock, RawRangeLock};
use report::Histogram;
use serde::{Deserialize, Serialize};

/// The default lock with blocks as large as an object.
pub(super) const BLOCKS_OWN: &str = "manx, blocks of an object";

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
    /// A skip list with this number of levels; half of the nodes of a level are in the next one.
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

    /// What reserves pages for large objects: each lock, those with their authors' waiting, and
    /// the default one with blocks as large as an object.
    pub(super) fn blobs() -> Vec<Variant> {
        let locks = Competitor::available().filter(|lock| *lock != Competitor::None);
        let blocks = Variant::manx(BLOCKS_OWN, Form::Usual);
        locks.map(Variant::of).chain([blocks]).collect()
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
        let list = |height| SkipList::with_height_by_halves(height).expect("the height is within the bounds");
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
pub(super) fn checked(pairs: u64, violations: u64) -> Sample {
    Sample::of([("checked_pairs", pairs as f64), ("violations", violations as f64)])
}
