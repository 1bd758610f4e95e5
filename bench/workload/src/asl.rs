//! `manx bench asl`: how far the order of a lock can be given up within a target for latency, after
//! Liu and others, "Asymmetry-aware scalable locking" (2022): its micro-benchmarks, and figures 1,
//! 4 and 5.
//!
//! One thread in two is little. Where the machine's cores are alike, little threads do everything
//! [`Setup::dilation`] times as slowly, in the measured program itself ([`cores`]). Targets for
//! latency follow from what the lock in order of arrival (MCS) is measured to do here; the best
//! static window (OPT) is found by halving the interval of windows, before the rounds begin.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`lock`] | the competitors |
//! | [`cores`] | which CPUs are big, and how threads spend time on them |
//! | [`run`], [`length`], [`timeline`] | threads, epochs and how long these are, what is recorded of them |
//! | `part`, `contended`, `lengths`, `scaling`, `opt` | the parts of the experiment |
//! | `sample`, `conclude`, `judge`, `draw` | figures, tables, targets, pictures |

mod conclude;
mod contended;
pub mod cores;
mod draw;
mod judge;
pub mod length;
mod lengths;
pub mod lock;
mod opt;
mod part;
pub mod run;
mod sample;
mod scaling;
pub mod timeline;

pub use conclude::conclude;
pub use draw::draw;
pub use part::Part;

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use cores::{Burn, Cores};
use length::Length;
use lock::Lock;
use manx::cpu::Classes;
use manx::slo::{self, Percentile};
use report::{Report, median};
use run::{Measurement, Run, WINDOW_NS_MAX, Window, Work};
use std::time::{Duration, Instant};

/// How many times as long a little thread takes, unless something else is asked for.
pub const DILATION: f64 = 3.75;
/// An epoch: sections, locks, cache lines of a section.
const SECTIONS: usize = 4;
const LOCKS: usize = 2;
const LINES: usize = 16;
/// A section on a big core, and the time between epochs there.
const HOLD_NS: u64 = 930;
const THINK_NS: u64 = 150;
/// Little epochs of a run with a target, at least.
const LITTLE_EPOCHS: u64 = 20_000;
/// How many times its time a run is gone on with for these: with a target, and without.
const LIMIT_SLO: u32 = 60;
const LIMIT: u32 = 2;

/// Runs from which a target follows.
const PROBES: usize = 3;
/// Epochs begun and ended to know what that costs.
const EPOCHS: u32 = 100_000;

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// A smoke check
    pub quick: bool,
    /// The measured time of a run
    pub time: Duration,
    /// How many times as long a little thread takes; if it is not said, cores differ as the machine
    /// has them, or by [`DILATION`]
    pub dilation: Option<f64>,
    /// Threads stay on their CPUs
    pub pinned: bool,
}

/// One version of a case.
struct Variant {
    name: String,
    lock: Lock,
    window: Window,
    /// Fewer threads than the others have.
    threads: Option<usize>,
}

impl Variant {
    fn plain(lock: Lock) -> Variant {
        Variant::named(lock.name(), lock, Window::Fixed(0))
    }

    fn named(name: impl Into<String>, lock: Lock, window: Window) -> Variant {
        Variant { name: name.into(), lock, window, threads: None }
    }

    fn slo(name: &str, lock: Lock, ns: u64, percentile: Percentile) -> Variant {
        Variant::named(name, lock, Window::Slo { ns, percentile })
    }

    /// One big thread.
    fn alone() -> Variant {
        Variant { threads: Some(1), ..Variant::named(conclude::ALONE, Lock::Mcs, Window::Fixed(0)) }
    }
}

/// What the runs of all experiments have in common.
struct Plan {
    setup: Setup,
    /// Two threads on two CPUs.
    run: Run,
    /// All CPUs.
    cores: Cores,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], fewer than two CPUs, or a lock that does not exclude.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus();
    platform::clock::init();
    if cpus.len() < 2 {
        return Err(Error::request("big and little threads need a CPU each", "allow this process two CPUs"));
    }
    let real = (setup.dilation.is_none() && setup.pinned).then(Classes::of_this_machine);
    let cores =
        real.and_then(|classes| Cores::real(&cpus, &classes)).unwrap_or_else(|| Cores::emulated(&cpus));
    let dilation = setup.dilation.unwrap_or(DILATION);
    let burn = match &cores.differ {
        Some(why) => {
            bench.note(format!(
                "every second thread is little: it runs on such a core ({why}), and does the same work there"
            ));
            let failed = |what| Error::Failed { what, stderr: String::new() };
            Burn::rounds_of(cores.big[0]).map_err(failed)?
        }
        None => {
            bench.note(format!(
                "every second thread is little: it takes {dilation} times as long in critical sections and between epochs"
            ));
            Burn::Time
        }
    };
    bench.note("slo: each of a thread's epochs is begun and ended; asl max: none is, so little threads stand by for 100 ms");
    if !setup.pinned {
        bench.note("unpinned: threads are not bound to CPUs, and each is big or little wherever it runs");
    }
    let run = Run {
        threads: 2,
        first_big: None,
        cpus: vec![cores.big[0], cores.little[0]],
        pinned: setup.pinned,
        burn,
        dilation,
        work: Work { sections: SECTIONS, locks: LOCKS, lines: LINES, hold_ns: HOLD_NS, nops: false },
        think_ns: THINK_NS,
        length: Length::Times(1),
        window: Window::Fixed(0),
        time: setup.time,
        little_epochs: if setup.quick { 0 } else { LITTLE_EPOCHS },
        limit: Duration::ZERO,
        slices: None,
    };
    let plan = Plan { setup, run, cores };
    Part::measure(&plan.setup.parts, &plan, bench)
}

impl Plan {
    /// What beginning and ending an epoch costs.
    fn epochs(&self, bench: &mut Bench) -> Result<(), Error> {
        let case = Case { name: conclude::EPOCHS, variants: &["start and end"], expected: self.setup.time };
        let run = |_, _| {
            let begun = Instant::now();
            for _ in 0..EPOCHS {
                slo::start(1);
                slo::end(1, 1_000_000);
            }
            let pair_ns = begun.elapsed().as_nanos() as f64 / f64::from(EPOCHS);
            Ok(Sample::of([("pair_ns", pair_ns), ("record_bytes", slo::RECORD_BYTES as f64)]))
        };
        bench.compare(case, |_| Vec::new(), run)
    }

    /// The little threads' 99th percentile without windows, from which targets follow: the median
    /// of a few runs, for a disturbed one would set all that comes after it.
    fn little_p99_ns(&self, run: &Run, lock: Lock) -> Result<u64, Error> {
        let run = Run { window: Window::Fixed(0), little_epochs: 0, ..run.clone() };
        let probes = if self.setup.quick { 1 } else { PROBES };
        let found = (0..probes).map(|_| Ok(self.once(lock, &run)?.little.summary().p99_ns as f64));
        Ok(median(&found.collect::<Result<Vec<f64>, Error>>()?) as u64)
    }

    fn compare(&self, bench: &mut Bench, case: &str, run: &Run, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| judge::watched(report, case);
        let case = Case { name: case, variants: &names, expected: run.time * 6 / 5 };
        bench.compare(case, watch, |at, _| {
            let variant = &variants[at];
            // Little threads starve with the longest window, and there is nothing to wait for.
            let limit = match variant.window {
                Window::Slo { .. } => LIMIT_SLO,
                Window::Fixed(WINDOW_NS_MAX) => 0,
                _ => LIMIT,
            };
            let threads = variant.threads.unwrap_or(run.threads);
            let run = Run { threads, window: variant.window, limit: run.time * limit, ..run.clone() };
            Ok(sample::sample(self.once(variant.lock, &run)?, &run))
        })
    }

    fn once(&self, lock: Lock, run: &Run) -> Result<Measurement, Error> {
        if crate::interrupt::requested() {
            return Err(Error::Interrupted);
        }
        lock.measure(run)
            .map_err(|what| Error::Failed { what: format!("{}: {what}", lock.name()), stderr: String::new() })
    }
}
