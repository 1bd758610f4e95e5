//! Locks that are always contended: Bench-1, Bench-6 and figure 5 of the paper.

use super::cases::{BENCH_1, BENCH_6, FIGURE_5};
use super::plan::{Plan, Variant};
use crate::error::Error;
use crate::harness::Bench;
use contention::lock::Lock;
use contention::run::{Run, WINDOW_NS_MAX, Window};
use manx::slo::Percentile;
use report::figure::duration;

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
