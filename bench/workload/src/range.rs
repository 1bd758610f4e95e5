//! `manx bench range`: range locks side by side, after Nguyen's thesis "Concurrent range locking"
//! (section 5.3), and beyond it.
//!
//! Threads lock ranges of bytes of one region, write or read what they hold, and unlock it. What is
//! asked for is drawn before anything is measured and the same for every competitor ([`request`]).
//! Latencies are those of acquisitions; where reading the clock would be most of what is measured
//! they come from runs of their own (`Timing`). `--check` measures nothing: every word of the
//! region says which holders are in it, and each word that two holders had at once is counted
//! (`region`).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`competitor`] | the competitors; `peers` and `none` are not Manx's |
//! | [`request`], `region` | what threads ask for, and the memory in which that lies |
//! | [`run`], `course`, `apart` | a run; what its threads do; runs in a process of their own |
//! | `part`, `disjoint`, `keys`, `overlapping`, `widths`, `memory` | the parts of the experiment |
//! | `grid`, `ways` | throughput over threads, holds, overlap and access; owners and tasks |
//! | [`blob`], [`mod@file`] | large objects in an area that all share; writes to one file |
//! | [`counters`] | cycles, instructions and misses, where they are counted |
//! | [`rocksdb`] | RocksDB's lock manager and its tree of ranges, compiled and loaded at run time |
//! | `sample`, `conclude`, `judge`, `draw` | figures, tables, targets, pictures |

pub(crate) mod apart;
pub mod blob;
pub mod competitor;
mod conclude;
pub mod counters;
mod course;
mod disjoint;
mod draw;
pub mod file;
mod grid;
mod judge;
mod keys;
mod memory;
mod none;
mod overlapping;
mod part;
mod peers;
mod region;
pub mod request;
pub mod rocksdb;
pub mod run;
mod sample;
mod ways;
mod widths;
pub(crate) mod zipfian;

pub use conclude::conclude;
pub use draw::draw;
pub use grid::heat;
pub use part::Part;

use crate::engine::compiler::Compiler;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use baselines::range::SkipList;
use competitor::{Competitor, Measured};
use manx::range::{RangeLock, RawRangeLock};
use report::figure::three_digits;
use report::{Compared, Report};
use run::{Measurement, Mode, Once, Run};
use std::time::Duration;
use ways::{Owners, Tasks};

/// The most threads that can be asked for.
pub const THREADS_MAX: usize = 32;
/// Threads, unless something else is asked for.
pub const THREADS: [usize; 3] = [1, 2, 8];
/// The region that threads share, unless something else is said.
const SPACE: usize = 512 * 1024;
/// A separate run that times takes the time of a run that counts, divided by this.
const TIMED_PART: u32 = 4;
/// A run in which threads wait for each other is this number of times as long, for its tail and for
/// shares that are more than the scheduler's turns.
const LONG: u32 = 3;
/// With what the tables compare the others.
const REFERENCE: Competitor = Competitor::Map;

/// What the experiment needs to know.
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
    /// How many threads, where the number is not the experiment's own
    pub threads: Vec<usize>,
}

/// Where latencies come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// There are none.
    None,
    /// From a run of its own, which is shorter.
    Apart,
    /// From the run that counts: ranges are held for so long that the clock does not matter.
    Within,
}

/// One version of a case.
#[derive(Clone)]
struct Variant {
    name: String,
    competitor: Competitor,
    form: Form,
}

/// Of locks that there are several of.
#[derive(Clone, Copy)]
enum Form {
    /// As it is if nothing is said.
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
    Strings(keys::Shape),
}

impl Variant {
    fn of(competitor: Competitor) -> Variant {
        Variant { name: competitor.name().into(), competitor, form: Form::Usual }
    }

    /// Every competitor that locks.
    fn locks() -> Vec<Variant> {
        Competitor::locks().map(Variant::of).collect()
    }

    /// … and no lock at all.
    fn all() -> Vec<Variant> {
        Competitor::available().map(Variant::of).collect()
    }

    /// A skip list with this number of levels.
    fn of_height(height: usize) -> Variant {
        let name = format!("height {height}");
        Variant { name, competitor: Competitor::SkipList, form: Form::Height(height) }
    }

    /// The default lock at its smallest.
    fn smallest() -> Variant {
        Variant { name: conclude::SMALLEST.into(), competitor: Competitor::Manx, form: Form::Smallest }
    }

    /// The default lock by another way to ask.
    fn way(form: Form) -> Variant {
        let name = if matches!(form, Form::Owners) { Owners::NAME } else { Tasks::NAME };
        Variant { name: name.into(), competitor: Competitor::Manx, form }
    }

    /// Does it with locks of this kind, for keys below `space`, where ranges are blocks of `unit`
    /// keys if that is known.
    fn measure<M: Measured>(&self, space: u64, unit: Option<u64>, what: M) -> M::Output {
        let list = |height| SkipList::with_height(height).expect("heights are those that there are");
        match self.form {
            Form::Usual => self.competitor.measure_blocks(space, unit, what),
            Form::Height(height) => what.with(|| list(height)),
            Form::Smallest => what.with(RangeLock::<u64, 1, 1>::new),
            Form::Owners => what.with(|| Owners::with_space(space)),
            Form::Tasks => what.with(|| Tasks::with_space(space)),
            Form::Strings(shape) => what.with(|| keys::Strings::new(shape)),
        }
    }

    fn once(&self, run: &Run, mode: Mode) -> Result<Measurement, String> {
        let unit = run.pattern.unit(run.threads).map(|unit| unit as u64);
        let space = run.pattern.space() as u64;
        apart::run_apart(self.competitor.leaks(), || self.measure(space, unit, Once(run, mode)))
    }
}

/// What the runs of all parts have in common.
struct Plan {
    setup: Setup,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], a CPU that refuses a thread, or a lock that was caught.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    platform::clock::init();
    for (name, load) in rocksdb::COMPETITORS {
        if let Err(missing) = Compiler::from_environment().and_then(|compiler| load(&compiler)) {
            let missing = missing.to_string().replace('\n', "; ");
            bench.note(format!("{name} is left out: {missing}"));
        }
    }
    let plan = Plan { setup };
    if plan.setup.check {
        bench.note("checked: every word of the region is entered and left by who holds it; nothing is timed, and no target judged");
    } else {
        bench.note(format!(
            "latencies are of acquisitions: from a run of their own, a quarter as long, where ranges are held \
             shortly; from the run that counts where they are held for 64 writes, and in `widths`. Reading the clock costs {} ns, once for \
             each latency",
            three_digits(run::clock_ns())
        ));
    }
    bench.note("threads have a CPU each where there are as many CPUs; otherwise the kernel places them");
    bench.note("range-lock can only be tried: its waiters yield and try again. range-mutex parks. Neither has shared ranges");
    Part::measure(&plan.setup.parts, &plan, bench)?;
    plan.caught(bench)
}

impl Plan {
    /// Returns the number of threads where the experiment does not sweep it: the largest that was
    /// asked for.
    fn many(&self) -> usize {
        self.setup.threads.iter().copied().max().unwrap_or(1)
    }

    fn compare(
        &self,
        bench: &mut Bench,
        case: &str,
        run: &Run,
        timing: Timing,
        variants: &[Variant],
    ) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| self.watched(report, case);
        let case = Case { name: case, variants: &names, expected: run.time * 3 / 2 };
        bench.compare(case, watch, |at, _| {
            let variant = &variants[at];
            self.once(variant, run, timing).map_err(|what| Error::Failed {
                what: format!("{}: {what}", variant.name),
                stderr: String::new(),
            })
        })
    }

    /// The ratios that a case goes on for; where locks are checked nothing is timed.
    fn watched(&self, report: &Report, case: &str) -> Vec<Compared> {
        if self.setup.check { Vec::new() } else { judge::watched(report, case) }
    }

    fn once(&self, variant: &Variant, run: &Run, timing: Timing) -> Result<Sample, String> {
        if self.setup.check {
            return Ok(sample::checked(&variant.once(run, Mode::Check)?));
        }
        Ok(match timing {
            Timing::None => sample::sample(&variant.once(run, Mode::Count)?, Measurement::default()),
            Timing::Apart => {
                let counted = variant.once(run, Mode::Count)?;
                let timed = Run { time: run.time / TIMED_PART, ..run.clone() };
                sample::sample(&counted, variant.once(&timed, Mode::Time)?)
            }
            Timing::Within => {
                let timed = variant.once(run, Mode::Time)?;
                let counted = Measurement {
                    pairs_per_s: timed.pairs_per_s,
                    slowest_share: timed.slowest_share,
                    ..Measurement::default()
                };
                sample::sample(&counted, timed)
            }
        })
    }

    /// An error if a lock let two have what only one may.
    fn caught(&self, bench: &mut Bench) -> Result<(), Error> {
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
