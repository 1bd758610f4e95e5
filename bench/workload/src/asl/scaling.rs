//! More and more threads at one lock, big ones first: Bench-4, figures 1 and 4; and less and less
//! use of it: Bench-5.
//!
//! With two CPUs scalability has two points, which says nothing about more.

use super::cases::{BENCH_4, FIGURE_1, FIGURE_4, bench_5, between, scaled};
use super::plan::{Plan, Variant};
use crate::error::Error;
use crate::harness::Bench;
use contention::lock::Lock;
use contention::run::{Run, WINDOW_NS_MAX, Window, Work};
use manx::slo::Percentile;

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
