//! Epochs of more than one length: Bench-2, where it changes from one moment to the next, and
//! Bench-3, where two are mixed.
//!
//! Bench-2 differs from the paper in three points. Its 350 ms last ten times as long, so that each
//! slice of the timeline has enough little epochs for a percentile. A length is a time, not a
//! number of cache lines. The target follows from the lock in order of arrival at 128 times the
//! length: it can be met at that length and at lengths of 1 to 255 times, and cannot be met at 1024
//! times.

use super::cases::{BENCH_2, BENCH_2_SLO, LONG_PERCENT, bench_3};
use super::opt::STEPS;
use super::plan::{Plan, Variant};
use crate::error::Error;
use crate::harness::Bench;
use contention::length::{Length, Phase};
use contention::lock::Lock;
use contention::run::{Run, WINDOW_NS_MAX, Window, Work};
use manx::slo::Percentile;

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
