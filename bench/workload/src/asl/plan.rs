//! How each case is run: its versions in turn, each with its lock, its window and its target.

use super::cases::{ALONE, EPOCHS};
use super::cores::Cores;
use super::judge;
use super::sample::sample;
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::lock::Lock;
use contention::measurement::Measurement;
use contention::run::{Run, WINDOW_NS_MAX, Window};
use manx::slo::{self, Percentile};
use report::{Report, median};
use std::time::Instant;

/// A run lasts until it has enough little epochs, and at most this number of times its measured
/// time: with a target, and without one.
const LIMIT_SLO: u32 = 60;
const LIMIT: u32 = 2;
/// The number of runs whose median p99 a target follows from.
const PROBES: usize = 3;
/// The number of epochs that are begun and ended to measure the cost of one.
const PAIRS: u32 = 100_000;

/// One version of a case.
pub(super) struct Variant {
    name: String,
    lock: Lock,
    window: Window,
    /// Its number of threads, if it differs from that of the other versions.
    threads: Option<usize>,
}

impl Variant {
    pub(super) fn plain(lock: Lock) -> Variant {
        Variant::named(lock.name(), lock, Window::Fixed(0))
    }

    pub(super) fn named(name: impl Into<String>, lock: Lock, window: Window) -> Variant {
        Variant { name: name.into(), lock, window, threads: None }
    }

    pub(super) fn slo(name: &str, lock: Lock, ns: u64, percentile: Percentile) -> Variant {
        Variant::named(name, lock, Window::Slo { ns, percentile })
    }

    /// Big threads only.
    pub(super) fn alone(threads: usize) -> Variant {
        Variant { threads: Some(threads), ..Variant::named(ALONE, Lock::Mcs, Window::Fixed(0)) }
    }
}

/// What the runs of all experiments have in common.
pub(super) struct Plan {
    /// A smoke check.
    pub(super) quick: bool,
    /// Two threads on two CPUs.
    pub(super) run: Run,
    /// All CPUs.
    pub(super) cores: Cores,
    /// Where the runs are made.
    pub(super) place: Place,
}

impl Plan {
    /// Measures what the begin and the end of an epoch cost.
    pub(super) fn epochs(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.place.machine().is_some() {
            bench.note("a simulated machine does not tell what an epoch's start and end cost");
            return Ok(());
        }
        let case = Case { name: EPOCHS, variants: &["start and end"], expected: self.run.time };
        let run = |_, _| {
            let begun = Instant::now();
            for _ in 0..PAIRS {
                slo::start(1);
                slo::end(1, 1_000_000);
            }
            let pair_ns = begun.elapsed().as_nanos() as f64 / f64::from(PAIRS);
            Ok(Sample::of([("pair_ns", pair_ns), ("record_bytes", slo::RECORD_BYTES as f64)]))
        };
        bench.compare(case, |_| Vec::new(), run)
    }

    /// The little threads' 99th percentile without windows, which targets follow from. It is the
    /// median of a few runs: a single disturbed run would change all later targets.
    pub(super) fn little_p99_ns(&self, run: &Run, lock: Lock) -> Result<u64, Error> {
        let run = Run { window: Window::Fixed(0), little_epochs: 0, ..run.clone() };
        let probes = if self.quick { 1 } else { PROBES };
        let found = (0..probes).map(|_| Ok(self.once(lock, &run)?.little.summary().p99_ns as f64));
        Ok(median(&found.collect::<Result<Vec<f64>, Error>>()?) as u64)
    }

    pub(super) fn compare(
        &self,
        bench: &mut Bench,
        case: &str,
        run: &Run,
        variants: &[Variant],
    ) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| judge::watched(report, case);
        let case = Case { name: case, variants: &names, expected: run.time * 6 / 5 };
        bench.compare(case, watch, |at, _| {
            let variant = &variants[at];
            // With the longest window little threads starve: waiting for their epochs is no use.
            let limit = match variant.window {
                Window::Slo { .. } => LIMIT_SLO,
                Window::Fixed(WINDOW_NS_MAX) => 0,
                _ => LIMIT,
            };
            let threads = variant.threads.unwrap_or(run.threads);
            let run = Run { threads, window: variant.window, limit: run.time * limit, ..run.clone() };
            let seed = self.place.seed();
            let mut sample = sample(self.once(variant.lock, &run)?, &run);
            if self.place.machine().is_some() {
                sample.add("seed", seed as f64);
            }
            Ok(sample)
        })
    }

    pub(super) fn once(&self, lock: Lock, run: &Run) -> Result<Measurement, Error> {
        if crate::interrupt::requested() {
            return Err(Error::Interrupted);
        }
        self.place
            .run(lock, run)
            .map_err(|what| Error::Failed { what: format!("{}: {what}", lock.name()), stderr: String::new() })
    }
}
