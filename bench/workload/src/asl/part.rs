//! The parts of the experiment, named as in the paper.

use super::cases::{
    BENCH_1, BENCH_2, BENCH_2_SLO, BENCH_4, BENCH_6, FIGURE_1, FIGURE_4, FIGURE_5, LONG_PERCENT, bench_3,
    bench_5, between, scaled,
};
use super::plan::{Plan, STEPS, Variant};
use crate::error::Error;
use crate::harness::Bench;
use contention::length::{Length, Phase};
use contention::lock::Lock;
use contention::run::{Run, WINDOW_NS_MAX, Window, Work};
use manx::slo::Percentile;
use report::figure::duration;

crate::parts::parts! {
    /// What an epoch's start and end cost.
    Epochs = "epochs" by epochs,
    /// Epochs within epochs, whose targets compete.
    Competing = "competing" by competing,
    /// One big thread and a little one, over a sweep of targets.
    Bench1 = "bench-1" by critical_sections,
    /// Big cores' turns to a little one's.
    Figure5 = "figure-5" by proportions,
    /// Epochs whose length changes over time.
    Bench2 = "bench-2" by changing,
    /// Eight threads on two CPUs.
    Bench6 = "bench-6" by over_subscription,
    /// More and more threads at one lock that covers few cache lines.
    Figure1 = "figure-1" by figure_1,
    /// The same with many lines.
    Figure4 = "figure-4" by figure_4,
    /// The same with targets and all competitors.
    Bench4 = "bench-4" by scalability,
    /// More and more time between epochs.
    Bench5 = "bench-5" by contention,
    /// Short and long epochs mixed.
    Bench3 = "bench-3" by mixed,
}

/// The highest target of the sweep.
const SLO_NS_MAX: f64 = 2e6;
/// Targets of the sweep.
const SLOS: usize = 6;
/// Threads of Bench-6 on two CPUs, and on each CPU of a simulated machine, as in the paper; and its
/// target: 999 of 1000.
const MANY: usize = 8;
const MANY_A_CPU: usize = 2;
const MANY_SLO_NS: u64 = 50_000_000;
/// The targets of its sweep, over the little threads' 99th percentile with the C library's lock.
const MANY_TIMES: [u64; 4] = [1, 2, 4, 8];
/// Little epochs for that: they last for up to the target, which as many as in
/// the other cases would take minutes.
const MANY_LITTLE_EPOCHS: u64 = 5_000;

impl Plan {
    /// Bench-1.
    pub(super) fn critical_sections(&self, bench: &mut Bench) -> Result<(), Error> {
        let fifo_ns = self.little_p99_ns(&self.run, Lock::Mcs)?;
        let mut variants: Vec<Variant> = Lock::PEERS.map(Variant::plain).into();
        variants.push(Variant::plain(Lock::Manx));
        let asl = Lock::AslMcs;
        variants.push(Variant::alone(1));
        variants.push(Variant::named("asl 0", asl, Window::Slo { ns: 0, percentile: Percentile::P99 }));
        variants.push(Variant::named("asl max", asl, Window::Fixed(WINDOW_NS_MAX)));
        let low_ns = 1.2 * fifo_ns as f64;
        let points = if self.quick { 2 } else { SLOS };
        for point in 0..points {
            let part = point as f64 / (points - 1) as f64;
            let ns = (low_ns * (SLO_NS_MAX / low_ns).powf(part)) as u64;
            variants.push(Variant::slo(&format!("slo {}", duration(ns)), asl, ns, Percentile::P99));
        }
        for (name, lock) in [("slo of shfl-10", Lock::Shfl10), ("slo of tas", Lock::Tas)] {
            let ns = self.little_p99_ns(&self.run, lock)?;
            variants.push(Variant::slo(name, asl, ns, Percentile::P99));
        }
        let middle_ns = (low_ns * SLO_NS_MAX).sqrt() as u64;
        self.with_opt(&self.run, middle_ns, &mut variants)?;
        self.compare(bench, BENCH_1, &self.run, &variants)
    }

    /// Figure 5.
    pub(super) fn proportions(&self, bench: &mut Bench) -> Result<(), Error> {
        let locks = [Lock::Shfl1, Lock::Shfl3, Lock::Shfl5, Lock::Shfl10, Lock::Shfl20, Lock::Shfl30];
        let variants = locks.map(Variant::plain);
        self.compare(bench, FIGURE_5, &self.run, &variants)
    }

    /// Bench-6.
    pub(super) fn over_subscription(&self, bench: &mut Bench) -> Result<(), Error> {
        let little_epochs = self.run.little_epochs.min(MANY_LITTLE_EPOCHS);
        let threads = if self.place.machine().is_some() { MANY_A_CPU * self.run.cpus.len() } else { MANY };
        let run = Run { threads, little_epochs, ..self.run.clone() };
        let peers = [Lock::Std, Lock::Glibc, Lock::ParkingLot, Lock::McsPark, Lock::Futex, Lock::Manx];
        let mut variants: Vec<Variant> = peers.map(Variant::plain).into();
        for lock in [Lock::AslFutex, Lock::AslMcsPark] {
            variants.push(Variant::slo(lock.name(), lock, MANY_SLO_NS, Percentile::P999));
        }
        let asl = Lock::AslFutex;
        variants.push(Variant::named("asl max", asl, Window::Fixed(WINDOW_NS_MAX)));
        let base_ns = self.little_p99_ns(&run, Lock::Glibc)?;
        for times in if self.quick { &MANY_TIMES[..1] } else { &MANY_TIMES } {
            let ns = base_ns * times;
            variants.push(Variant::slo(&format!("slo {}", duration(ns)), asl, ns, Percentile::P99));
        }
        self.compare(bench, BENCH_6, &run, &variants)
    }
}

// Epochs of more than one length: Bench-2, where it changes from one moment to the next, and
// Bench-3, where two are mixed.
//
// Bench-2 differs from the paper in three points. Its 350 ms last ten times as long, so that each
// slice of the timeline has enough little epochs for a percentile. A length is a time, not a
// number of cache lines. The target follows from the lock in order of arrival at 128 times the
// length: it can be met at that length and at lengths of 1 to 255 times, and cannot be met at 1024
// times.

/// Lengths over time, as in the paper.
pub(super) const PHASES: &[Phase] = &[
    Phase { name: "x1", until: 2.0 / 7.0, times: (1, 1) },
    Phase { name: "x128", until: 4.0 / 7.0, times: (128, 128) },
    Phase { name: "x1 again", until: 5.0 / 7.0, times: (1, 1) },
    Phase { name: "x1 to x255", until: 6.0 / 7.0, times: (1, 255) },
    Phase { name: "x1024", until: 1.0, times: (1024, 1024) },
];
/// Slices of its timeline; a multiple of seven, so that each phase begins with a slice.
const SLICES: usize = 70;
/// A section of a short epoch of it.
const SHORT_HOLD_NS: u64 = 50;
const SHORT_LINES: usize = 1;
/// The length that the target is derived from, and the target over the 99th percentile of the lock
/// in order of arrival at that length.
const TARGET_TIMES: u64 = 128;
const TARGET_OVER_FIFO: f64 = 2.5;
/// A long epoch over a short one in Bench-3.
const LONG: u64 = 100;

impl Plan {
    /// Bench-2.
    pub(super) fn changing(&self, bench: &mut Bench) -> Result<(), Error> {
        let work = Work { hold_ns: SHORT_HOLD_NS, lines: SHORT_LINES, ..self.run.work };
        let long = Run { work, length: Length::Times(TARGET_TIMES), ..self.run.clone() };
        let slo_ns = (self.little_p99_ns(&long, Lock::Mcs)? as f64 * TARGET_OVER_FIFO) as u64;
        let run = Run {
            length: Length::Phases(PHASES),
            time: self.run.time * 7 / 2,
            little_epochs: 0,
            slices: Some(SLICES),
            ..long
        };
        let variants = [
            Variant::plain(Lock::Mcs),
            Variant::slo(BENCH_2_SLO, Lock::AslMcs, slo_ns, Percentile::P99),
            Variant::named("asl max", Lock::AslMcs, Window::Fixed(WINDOW_NS_MAX)),
        ];
        self.compare(bench, BENCH_2, &run, &variants)
    }

    /// Bench-3. The target is the little threads' p99 with the lock in order of arrival if all
    /// epochs are long.
    pub(super) fn mixed(&self, bench: &mut Bench) -> Result<(), Error> {
        let little_epochs = self.run.little_epochs / 10;
        let mixed = |long_percent| {
            let length = Length::Mixed { long_percent, times: LONG };
            Run { length, little_epochs, ..self.run.clone() }
        };
        let slo_ns = self.little_p99_ns(&mixed(100), Lock::Mcs)?;
        for long_percent in LONG_PERCENT.into_iter().step_by(if self.quick { 2 } else { 1 }) {
            let run = mixed(long_percent);
            let mut variants = vec![Variant::plain(Lock::Mcs)];
            if bench.allows(self.run.time * 4 * STEPS) {
                self.with_opt_by_length(&run, slo_ns, &mut variants)?;
            }
            self.compare(bench, &bench_3(long_percent), &run, &variants)?;
        }
        Ok(())
    }
}

// More and more threads at one lock, big ones first: Bench-4, figures 1 and 4; and less and less
// use of it: Bench-5.
//
// With two CPUs scalability has two points, which says nothing about more.

/// What a section takes on a big core for each cache line that it touches.
const LINE_NS: u64 = 58;
/// Lines in figure 1, in figure 4 and Bench-4, and in Bench-5.
const FEW_LINES: usize = 4;
const MANY_LINES: usize = 64;
const PAIR_LINES: usize = 2;
/// The least time of a section, below which a little thread would be held up by its lines alone.
const HOLD_NS_MIN: u64 = 250;
/// NOPs between epochs in Bench-5: the paper's axis shows their logarithm.
pub(super) const NOPS: [u64; 7] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

impl Plan {
    /// One section, one lock.
    fn work(&self, lines: usize) -> Work {
        let hold_ns = (lines as u64 * LINE_NS).max(HOLD_NS_MIN);
        Work { sections: 1, locks: 1, lines, hold_ns, ..self.run.work }
    }

    /// All CPUs, the big half of them first.
    fn all(&self, work: Work) -> Run {
        let cpus = self.cores.all();
        Run { threads: cpus.len(), first_big: Some(self.cores.big.len()), cpus, work, ..self.run.clone() }
    }

    /// Figures 1 and 4.
    pub(super) fn figure_1(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = [Lock::Mcs, Lock::Tas].map(Variant::plain);
        self.scale(bench, FIGURE_1, &self.all(self.work(FEW_LINES)), &variants)
    }

    pub(super) fn figure_4(&self, bench: &mut Bench) -> Result<(), Error> {
        let variants = [Lock::Mcs, Lock::Tas].map(Variant::plain);
        self.scale(bench, FIGURE_4, &self.all(self.work(MANY_LINES)), &variants)
    }

    /// Bench-4.
    pub(super) fn scalability(&self, bench: &mut Bench) -> Result<(), Error> {
        let run = self.all(self.work(MANY_LINES));
        let tas_ns = self.little_p99_ns(&run, Lock::Tas)?;
        let mut variants: Vec<Variant> = Lock::PEERS.map(Variant::plain).into();
        variants.push(Variant::slo("asl 0", Lock::AslMcs, 0, Percentile::P99));
        variants.push(Variant::slo("slo of tas", Lock::AslMcs, tas_ns, Percentile::P99));
        variants.push(Variant::named("asl max", Lock::AslMcs, Window::Fixed(WINDOW_NS_MAX)));
        self.scale(bench, BENCH_4, &run, &variants)
    }

    fn scale(&self, bench: &mut Bench, case: &str, all: &Run, variants: &[Variant]) -> Result<(), Error> {
        bench.note(format!(
            "{case}: of {} CPUs {} are big, and threads have these first{}",
            all.threads,
            self.cores.big.len(),
            if all.threads < 4 { "; so few CPUs say nothing about scalability" } else { "" },
        ));
        let step = if self.quick { all.threads.max(2) - 1 } else { 1 };
        for threads in (1..=all.threads).step_by(step) {
            let run = Run { threads, ..all.clone() };
            self.compare(bench, &scaled(case, threads), &run, variants)?;
        }
        Ok(())
    }

    /// Bench-5.
    pub(super) fn contention(&self, bench: &mut Bench) -> Result<(), Error> {
        let mut variants: Vec<Variant> = Lock::PEERS.map(Variant::plain).into();
        variants.push(Variant::alone(self.cores.big.len()));
        variants.push(Variant::named("asl max", Lock::AslMcs, Window::Fixed(WINDOW_NS_MAX)));
        let step = if self.quick { NOPS.len() - 1 } else { 1 };
        for count in NOPS.into_iter().step_by(step) {
            let (nops, think_ns) = between(self.run.burn, count);
            let run = self.all(self.work(PAIR_LINES));
            let run = Run { think_ns, work: Work { nops, ..run.work }, ..run };
            self.compare(bench, &bench_5(count), &run, &variants)?;
        }
        Ok(())
    }
}
