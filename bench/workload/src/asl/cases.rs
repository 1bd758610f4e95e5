//! The cases and their versions by name, and the epoch that most of them have.

use report::figure::duration;

/// An epoch: sections, locks, cache lines of a section.
pub(super) const SECTIONS: usize = 4;
pub(super) const LOCKS: usize = 2;
pub(super) const LINES: usize = 16;
/// A section on a big core, and the time between epochs there.
pub(super) const HOLD_NS: u64 = 930;
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
pub(super) fn bench_5(think_ns: u64) -> String {
    format!("bench-5, {} between epochs", duration(think_ns))
}

/// The name of a case with `threads` threads.
pub(super) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}
