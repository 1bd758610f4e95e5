//! How each case is run: its versions in turn, each with its lock, its window and its target.

use super::cases::{AGAINST_OPT, ALONE, EPOCHS, OPT};
use super::cores::Cores;
use super::{judge, printed};
use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::lock::Lock;
use contention::run::Measurement;
use contention::run::{Run, WINDOW_NS_MAX, Window};
use contention::timeline::{Slice, Timeline};
use manx::slo::{self, Percentile};
use report::{Histogram, Report, median};
use serde::{Deserialize, Serialize};
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
#[derive(Clone)]
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

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn lock(&self) -> Lock {
        self.lock
    }

    /// The same with another lock.
    pub(super) fn over(&self, name: String, lock: Lock) -> Variant {
        Variant { name, lock, ..self.clone() }
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
        let variants = with_printed(variants);
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
        self.place.run(lock, run).map_err(|what| Error::failed(format!("{}: {what}", lock.name())))
    }
}

/// What is kept of a run beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Output {
    /// Epochs of big threads
    pub big: Histogram,
    /// Epochs of little threads
    pub little: Histogram,
    /// From one moment to the next
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
}

/// What tables, pictures and verdicts are made of.
pub(super) fn sample(found: Measurement, run: &Run) -> Sample {
    let mut sample = Sample::of([("slowest_share", found.slowest_share), ("dilation", found.dilation)]);
    latencies(&mut sample, "", &found.big, &found.little);
    sample.add("epochs_per_s", found.epochs_per_s);
    match run.window {
        Window::Fixed(ns) => sample.add("window_ns", ns as f64),
        Window::ByLength { short_ns, long_ns } => {
            sample.add("short_window_ns", short_ns as f64);
            sample.add("window_ns", long_ns as f64);
        }
        Window::Slo { ns, percentile } => {
            let allowed = 1.0 - f64::from(percentile.hundredths()) / 10_000.0;
            let missed = found.missed as f64 / found.little.count().max(1) as f64;
            sample.add("slo_ns", ns as f64);
            sample.add("missed_share", missed);
            sample.add("missed_over_allowed", missed / allowed);
            sample.add("little_epochs_wanted", run.little_epochs as f64);
            sample.add("window_ns", found.window_ns);
        }
    }
    let Timeline { slices, phases } = found.timeline.unwrap_or_default();
    for phase in &phases {
        let part = format!("{}: ", phase.name);
        let epochs = latencies(&mut sample, &part, &phase.big, &phase.little);
        let seconds = run.time.as_secs_f64() * phase.slices as f64 / slices.len() as f64;
        sample.add(format!("{part}epochs_per_s"), epochs as f64 / seconds);
        sample.add(format!("{part}window_ns"), phase.window_ns);
    }
    // Shares of a run without an epoch.
    sample.values.retain(|_, value| value.is_finite());
    sample.with(&Output { big: found.big, little: found.little, slices })
}

/// Percentiles by class, of those classes that there are. Returns the number of epochs.
fn latencies(sample: &mut Sample, part: &str, big: &Histogram, little: &Histogram) -> u64 {
    let all = [big.clone(), little.clone()].into_iter().sum();
    for (who, latencies) in [("big", big), ("little", little), ("all", &all)] {
        sample.add_tail(&format!("{part}{who}_"), latencies);
    }
    sample.add(format!("{part}little_epochs"), little.count() as f64);
    all.count()
}

// The best static windows, for the feedback to be measured against (the paper's LibASL-OPT).
//
// The longer the window, the later little epochs end. So a bisection finds the longest window with
// which 99 % of them keep the target. Epochs of two lengths get one window each, which no real
// program could do: it does not know a length in advance. The window of short epochs is found
// first, while long epochs have none, because short epochs have the most time to spare.

/// Steps in which a window is found.
pub(super) const STEPS: u32 = 10;
/// The same in a smoke check.
const QUICK_STEPS: u32 = 2;

impl Plan {
    /// Adds the feedback at this target, and the best static window.
    pub(super) fn with_opt(&self, run: &Run, slo_ns: u64, variants: &mut Vec<Variant>) -> Result<(), Error> {
        let window = Window::Fixed(self.best_ns(run, slo_ns, Window::Fixed)?);
        Self::add_opt(slo_ns, window, variants);
        Ok(())
    }

    /// The same with a window for each length.
    pub(super) fn with_opt_by_length(
        &self,
        run: &Run,
        slo_ns: u64,
        variants: &mut Vec<Variant>,
    ) -> Result<(), Error> {
        let short_ns = self.best_ns(run, slo_ns, |short_ns| Window::ByLength { short_ns, long_ns: 0 })?;
        let long_ns = self.best_ns(run, slo_ns, |long_ns| Window::ByLength { short_ns, long_ns })?;
        Self::add_opt(slo_ns, Window::ByLength { short_ns, long_ns }, variants);
        Ok(())
    }

    fn add_opt(slo_ns: u64, window: Window, variants: &mut Vec<Variant>) {
        variants.push(Variant::slo(AGAINST_OPT, Lock::AslMcs, slo_ns, Percentile::P99));
        variants.push(Variant::named(OPT, Lock::Static, window));
    }

    fn best_ns(&self, run: &Run, slo_ns: u64, window: impl Fn(u64) -> Window) -> Result<u64, Error> {
        let steps = if self.quick { QUICK_STEPS } else { STEPS };
        longest(slo_ns, steps, |ns| {
            let run = Run { window: window(ns), little_epochs: 0, ..run.clone() };
            Ok(self.once(Lock::Static, &run)?.little.summary().p99_ns <= slo_ns)
        })
    }
}

/// The longest of the tried windows up to `most_ns` that keeps the target; 0 if none does.
fn longest(
    most_ns: u64,
    steps: u32,
    mut keeps: impl FnMut(u64) -> Result<bool, Error>,
) -> Result<u64, Error> {
    let (mut low_ns, mut high_ns) = (0, most_ns);
    for _ in 0..steps {
        let middle_ns = low_ns + (high_ns - low_ns) / 2;
        if keeps(middle_ns)? { low_ns = middle_ns } else { high_ns = middle_ns }
    }
    Ok(low_ns)
}

/// The versions, with the printed one behind each of ours.
pub(super) fn with_printed(variants: &[Variant]) -> Vec<Variant> {
    let both = |ours: &Variant| {
        let printed =
            printed::lock(ours.lock()).map(|lock| ours.over(printed::name(lock, ours.name()), lock));
        [Some(ours.clone()), printed]
    };
    variants.iter().flat_map(both).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_window_that_keeps_the_target_is_found_and_an_error_ends_it() {
        let find = |limit: u64| longest(1024, 10, |ns| Ok(ns <= limit)).unwrap();
        assert_eq!((find(0), find(300), find(5000)), (0, 300, 1023));
        let error = longest(1024, 10, |_| Err(Error::Interrupted));
        assert!(matches!(error, Err(Error::Interrupted)));
    }
}
