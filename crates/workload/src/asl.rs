//! `manx bench asl`: how far the order of a lock can be given up within a target for latency, after Liu and others,
//! "Asymmetry-aware scalable locking" (2022): Bench-1, Bench-3, Bench-6, and figure 5.
//!
//! One thread in two is little. The machine's cores are alike, so little threads do everything
//! [`DILATION`] times as slowly, in the measured program itself ([`run`]). Targets for latency follow from what the
//! lock in order of arrival (MCS) is measured to do here; the best static window (OPT) is found by halving the
//! interval of windows, before the rounds begin.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`lock`] | who competes |
//! | [`run`] | threads, epochs, what is recorded |
//! | [`conclude`] | tables, the picture, targets |

mod conclude;
pub mod lock;
pub mod run;

pub use conclude::conclude;

use crate::error::Error;
use crate::harness::{Bench, Sample};
use lock::Lock;
use manx::slo::{self, Percentile};
use report::Histogram;
use report::figure::duration;
use run::{Measurement, Mix, Run, WINDOW_NS_MAX, Window};
use serde_json::value::RawValue;
use std::time::{Duration, Instant};

/// How many times as long a little thread takes.
pub const DILATION: f64 = 3.75;
/// A section on a big core, and the time between epochs there.
const HOLD_NS: u64 = 930;
const THINK_NS: u64 = 150;
/// The highest target of the sweep.
const SLO_NS_MAX: f64 = 2e6;
/// Targets of the sweep.
const SLOS: usize = 6;
/// Little epochs a run, at least.
const LITTLE_EPOCHS: u64 = 20_000;
/// A long epoch over a short one, and how many of a hundred are long.
const LONG: u64 = 100;
const LONG_PERCENT: [u64; 5] = [0, 25, 50, 75, 100];
/// Threads of Bench-6, on two CPUs, and its target: 999 of 1000.
const MANY: usize = 8;
const MANY_SLO_NS: u64 = 50_000_000;
/// Steps in which the best static window is found.
const STEPS: usize = 10;

/// Epochs begun and ended to know what that costs.
const EPOCHS: u32 = 100_000;

/// A part of the experiment, named as in the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What an epoch's start and end cost.
    Epochs,
    /// One big thread and a little one, over a sweep of targets.
    Bench1,
    /// Big cores' turns to a little one's.
    Figure5,
    /// Eight threads on two CPUs.
    Bench6,
    /// Short and long epochs mixed.
    Bench3,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Part; 5] = [Part::Epochs, Part::Bench1, Part::Figure5, Part::Bench6, Part::Bench3];

    /// By which the user names it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Epochs => "epochs",
            Part::Bench1 => "bench-1",
            Part::Figure5 => "figure-5",
            Part::Bench6 => "bench-6",
            Part::Bench3 => "bench-3",
        }
    }
}

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// Rounds
    pub repeats: usize,
    /// A smoke check
    pub quick: bool,
    /// The measured time of a run
    pub time: Duration,
}

/// One version of a case.
struct Variant {
    name: String,
    lock: Lock,
    window: Window,
    /// Without little threads.
    alone: bool,
}

impl Variant {
    fn plain(lock: Lock) -> Variant {
        Variant::named(lock.name(), lock, Window::Fixed(0))
    }

    fn named(name: impl Into<String>, lock: Lock, window: Window) -> Variant {
        Variant { name: name.into(), lock, window, alone: false }
    }

    fn slo(name: &str, lock: Lock, ns: u64, percentile: Percentile) -> Variant {
        Variant::named(name, lock, Window::Slo { ns, percentile })
    }
}

/// What the runs of all experiments have in common.
struct Plan {
    setup: Setup,
    run: Run,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], fewer than two CPUs, or a lock that does not exclude.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let mut cpus = crate::machine::cpus();
    if cpus.len() < 2 {
        return Err(Error::request("big and little threads need a CPU each", "allow this process two CPUs"));
    }
    cpus.truncate(2);
    bench.note(format!(
        "every second thread is little: it takes {DILATION} times as long in critical sections and between epochs"
    ));
    bench.note("slo: each of a thread's epochs is begun and ended; asl max: none is, so little threads stand by for 100 ms");
    let run = Run {
        threads: 2,
        cpus,
        dilation: DILATION,
        hold_ns: HOLD_NS,
        think_ns: THINK_NS,
        mix: None,
        window: Window::Fixed(0),
        time: setup.time,
        little_epochs: if setup.quick { 0 } else { LITTLE_EPOCHS },
    };
    let plan = Plan { setup, run };
    for part in Part::ALL.into_iter().filter(|part| plan.setup.parts.contains(part)) {
        match part {
            Part::Epochs => plan.epochs(bench)?,
            Part::Bench1 => plan.critical_sections(bench)?,
            Part::Figure5 => plan.proportions(bench)?,
            Part::Bench6 => plan.over_subscription(bench)?,
            Part::Bench3 => plan.mixed(bench)?,
        }
    }
    Ok(())
}

impl Plan {
    /// What beginning and ending an epoch costs.
    fn epochs(&self, bench: &mut Bench) -> Result<(), Error> {
        bench.compare(conclude::EPOCHS, &["start and end"], self.setup.repeats, self.setup.time, |_, _| {
            let begun = Instant::now();
            for _ in 0..EPOCHS {
                slo::start(1);
                slo::end(1, 1_000_000);
            }
            let pair_ns = begun.elapsed().as_nanos() as f64 / f64::from(EPOCHS);
            Ok(Sample::of([("pair_ns", pair_ns), ("record_bytes", slo::RECORD_BYTES as f64)]))
        })
    }

    /// Bench-1.
    fn critical_sections(&self, bench: &mut Bench) -> Result<(), Error> {
        let fifo_ns = self.little_p99_ns(&self.run, Lock::Mcs, 0)?;
        let peers = [
            Lock::Std,
            Lock::Glibc,
            Lock::ParkingLot,
            Lock::Tas,
            Lock::Ticket,
            Lock::Mcs,
            Lock::McsPark,
            Lock::Shfl10,
            Lock::Manx,
        ];
        let mut variants: Vec<Variant> = peers.map(Variant::plain).into();
        let asl = Lock::AslMcs;
        variants.push(Variant::named("mcs, again", Lock::Mcs, Window::Fixed(0)));
        variants.push(Variant { name: conclude::ALONE.into(), alone: true, ..Variant::plain(Lock::Mcs) });
        variants.push(Variant::named("asl 0", asl, Window::Slo { ns: 0, percentile: Percentile::P99 }));
        variants.push(Variant::named("asl max", asl, Window::Fixed(WINDOW_NS_MAX)));
        let low_ns = 1.2 * fifo_ns as f64;
        let points = if self.setup.quick { 2 } else { SLOS };
        for point in 0..points {
            let part = point as f64 / (points - 1) as f64;
            let ns = (low_ns * (SLO_NS_MAX / low_ns).powf(part)) as u64;
            variants.push(Variant::slo(&format!("slo {}", duration(ns)), asl, ns, Percentile::P99));
        }
        for (name, lock) in [("slo of shfl-10", Lock::Shfl10), ("slo of tas", Lock::Tas)] {
            let ns = self.little_p99_ns(&self.run, lock, 0)?;
            variants.push(Variant::slo(name, asl, ns, Percentile::P99));
        }
        let middle_ns = (low_ns * SLO_NS_MAX).sqrt() as u64;
        self.with_opt(&self.run, middle_ns, &mut variants)?;
        self.compare(bench, conclude::BENCH_1, &self.run, &variants)
    }

    /// Figure 5.
    fn proportions(&self, bench: &mut Bench) -> Result<(), Error> {
        let locks = [Lock::Shfl1, Lock::Shfl3, Lock::Shfl5, Lock::Shfl10, Lock::Shfl20, Lock::Shfl30];
        let variants = locks.map(Variant::plain);
        self.compare(bench, conclude::FIGURE_5, &self.run, &variants)
    }

    /// Bench-6.
    fn over_subscription(&self, bench: &mut Bench) -> Result<(), Error> {
        let run = Run { threads: MANY, ..self.run.clone() };
        let peers = [Lock::Std, Lock::Glibc, Lock::ParkingLot, Lock::McsPark, Lock::Futex, Lock::Manx];
        let mut variants: Vec<Variant> = peers.map(Variant::plain).into();
        variants.push(Variant::named("std, again", Lock::Std, Window::Fixed(0)));
        for lock in [Lock::AslFutex, Lock::AslMcsPark] {
            variants.push(Variant::slo(lock.name(), lock, MANY_SLO_NS, Percentile::P999));
        }
        self.compare(bench, conclude::BENCH_6, &run, &variants)
    }

    /// Bench-3. The target is what the lock in order does if all epochs are long.
    fn mixed(&self, bench: &mut Bench) -> Result<(), Error> {
        let little_epochs = self.run.little_epochs / 10;
        let mixed = |long_percent| {
            let mix = Some(Mix { long_percent, times: LONG });
            Run { mix, little_epochs, ..self.run.clone() }
        };
        let slo_ns = self.little_p99_ns(&mixed(100), Lock::Mcs, 0)?;
        for long_percent in LONG_PERCENT {
            let run = mixed(long_percent);
            let mut variants = vec![Variant::plain(Lock::Mcs)];
            if bench.allows(self.setup.time * 2 * STEPS as u32) {
                self.with_opt(&run, slo_ns, &mut variants)?;
            }
            self.compare(bench, &conclude::bench_3(long_percent), &run, &variants)?;
        }
        Ok(())
    }

    /// Adds the feedback at this target, and the best static window.
    fn with_opt(&self, run: &Run, slo_ns: u64, variants: &mut Vec<Variant>) -> Result<(), Error> {
        let (mut low_ns, mut high_ns) = (0, slo_ns);
        for _ in 0..if self.setup.quick { 2 } else { STEPS } {
            let middle_ns = low_ns + (high_ns - low_ns) / 2;
            if self.little_p99_ns(run, Lock::Static, middle_ns)? <= slo_ns {
                low_ns = middle_ns;
            } else {
                high_ns = middle_ns;
            }
        }
        variants.push(Variant::slo(conclude::AGAINST_OPT, Lock::AslMcs, slo_ns, Percentile::P99));
        variants.push(Variant::named(conclude::OPT, Lock::Static, Window::Fixed(low_ns)));
        Ok(())
    }

    /// The little threads' 99th percentile with a static window.
    fn little_p99_ns(&self, run: &Run, lock: Lock, window_ns: u64) -> Result<u64, Error> {
        let run = Run { window: Window::Fixed(window_ns), little_epochs: 0, ..run.clone() };
        Ok(once(lock, &run)?.little.summary().p99_ns)
    }

    fn compare(&self, bench: &mut Bench, case: &str, run: &Run, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        bench.compare(case, &names, self.setup.repeats, run.time * 6 / 5, |at, _| {
            let variant = &variants[at];
            let threads = if variant.alone { 1 } else { run.threads };
            let run = Run { threads, window: variant.window, ..run.clone() };
            Ok(sample(&once(variant.lock, &run)?, variant.window))
        })
    }
}

fn once(lock: Lock, run: &Run) -> Result<Measurement, Error> {
    if crate::interrupt::requested() {
        return Err(Error::Interrupted);
    }
    lock.measure(run)
        .map_err(|what| Error::Failed { what: format!("{}: {what}", lock.name()), stderr: String::new() })
}

fn sample(found: &Measurement, window: Window) -> Sample {
    let mut all = Histogram::new();
    all.merge(&found.big);
    all.merge(&found.little);
    let mut sample = Sample::of([
        ("epochs_per_s", found.epochs_per_s),
        ("slowest_share", found.slowest_share),
        ("dilation", found.dilation),
        ("little_epochs", found.little.count() as f64),
    ]);
    let mut add = |name: String, value: f64| sample.values.insert(name, value);
    let groups = [("big", &found.big), ("little", &found.little), ("all", &all)];
    for (who, latencies) in groups.into_iter().filter(|(_, latencies)| latencies.count() > 0) {
        let summary = latencies.summary();
        add(format!("{who}_p50_ns"), summary.p50_ns as f64);
        add(format!("{who}_p99_ns"), summary.p99_ns as f64);
        add(format!("{who}_p999_ns"), summary.p999_ns as f64);
        add(format!("{who}_max_ns"), summary.max_ns as f64);
    }
    match window {
        Window::Fixed(ns) => add("window_ns".into(), ns as f64),
        Window::Slo { ns, percentile } => {
            let allowed = 1.0 - f64::from(percentile.hundredths()) / 10_000.0;
            let missed = found.missed as f64 / found.little.count().max(1) as f64;
            add("slo_ns".into(), ns as f64);
            add("missed_share".into(), missed);
            add("missed_over_allowed".into(), missed / allowed);
            add("window_ns".into(), found.window_ns)
        }
    };
    let histograms = serde_json::to_string(&[&found.big, &found.little]).ok();
    sample.output = histograms.and_then(|text| RawValue::from_string(text).ok());
    sample
}
