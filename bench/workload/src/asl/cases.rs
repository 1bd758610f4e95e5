//! The cases and their versions by name, and the epoch that most of them have.

use contention::run::{Burn, NOPS_PER_US};

/// An epoch: sections, locks, cache lines of a section.
pub(super) const SECTIONS: usize = 4;
pub(super) const LOCKS: usize = 2;
pub(super) const LINES: usize = 16;
/// A section on a big core. The paper does not name it.
pub(super) const HOLD_NS: u64 = 930;
/// NOPs between epochs, and the time between epochs where cores are alike.
pub(super) const NOPS: u64 = 600;
pub(super) const THINK_NS: u64 = 150;

pub(super) const EPOCHS: &str = "an epoch's cost";
pub(super) const BENCH_1: &str = "bench-1";
pub(super) const BENCH_2: &str = "bench-2, lengths that change";
/// Its version with a target.
pub(super) const BENCH_2_SLO: &str = "slo";
pub(super) const BENCH_4: &str = "bench-4";
pub(super) const BENCH_6: &str = "bench-6";
pub(super) const FIGURE_1: &str = "figure 1";
pub(super) const FIGURE_4: &str = "figure 4";
pub(super) const FIGURE_5: &str = "figure 5, big threads' turns to a little one's";
/// Big threads without little ones.
pub(super) const ALONE: &str = "big alone";
/// The best static window, and the feedback at the same target.
pub(super) const OPT: &str = "opt";
pub(super) const AGAINST_OPT: &str = "slo of opt";

/// How many epochs of a hundred are long in the cases of Bench-3.
pub(super) const LONG_PERCENT: [u64; 5] = [0, 25, 50, 75, 100];

/// The name of a case of Bench-3.
pub(super) fn bench_3(long_percent: u64) -> String {
    format!("bench-3, {long_percent} % long epochs")
}

/// The name of a case of Bench-5.
pub(super) fn bench_5(nops: u64) -> String {
    format!("bench-5, {nops} NOP{} between epochs", if nops == 1 { "" } else { "s" })
}

/// These NOPs between epochs, `(NOPs, time_ns)`: as they are where cores differ, and otherwise the
/// time that they take.
pub(super) fn between(burn: Burn, nops: u64) -> (u64, u64) {
    match burn {
        Burn::Rounds { .. } => (nops, 0),
        Burn::Time => (0, nops * 1000 / NOPS_PER_US),
    }
}

/// The name of a case with `threads` threads.
pub(super) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}
