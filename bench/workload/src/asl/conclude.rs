//! What the runs mean: a table for each case, the picture of latency over its target in characters,
//! and notes.

use super::judge::{ceiling, enough, figure};
use super::lengths::COURSE;
use crate::verdict;
use report::figure::{duration, three_digits};
use report::plot::{Series, plot};
use report::{Report, Sheet};

pub(super) const EPOCHS: &str = "an epoch's cost";
pub(super) const BENCH_1: &str = "bench-1, 2 threads";
pub(super) const BENCH_2: &str = "bench-2, lengths that change";
/// Its version with a target.
pub(super) const BENCH_2_SLO: &str = "slo";
pub(super) const BENCH_4: &str = "bench-4";
pub(super) const BENCH_6: &str = "bench-6, 8 threads on 2 CPUs";
pub(super) const FIGURE_1: &str = "figure 1";
pub(super) const FIGURE_4: &str = "figure 4";
pub(super) const FIGURE_5: &str = "figure 5, big threads' turns to a little one's";
/// Big threads without little ones.
pub(super) const ALONE: &str = "big alone";
/// The best static window, and the feedback at the same target.
pub(super) const OPT: &str = "opt";
pub(super) const AGAINST_OPT: &str = "slo of opt";

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

/// A row for each class of threads.
const BY_CLASS: &str = "
    version = version | runs [] = count epochs_per_s | epochs = epochs_per_s
    little epochs [] = least whole little_epochs | slowest [x] = slowest_share | dilation [x] = dilation
    SLO = slo_ns | missed [%] = missed_share
    who = part | p50 = *p50_ns | p99 = *p99_ns | p99.9 = *p999_ns | max = *max_ns";
/// Bench-2: a row for each part of the course.
const BY_STRETCH: &str = "
    version = version | length = part | epochs = *: epochs_per_s | little epochs [] = *: little_epochs
    SLO = slo_ns | little p50 = *: little_p50_ns | little p99 = *: little_p99_ns | little max = *: little_max_ns
    big p99 = *: big_p99_ns | window = *: window_ns";

/// Draws tables and the picture, and judges the targets.
pub fn conclude(report: &mut Report) {
    let pair_ns = report.middle(EPOCHS, "start and end", "pair_ns");
    if pair_ns.is_finite() {
        let text = format!("an epoch's start and end cost {} ns, nobody else running", three_digits(pair_ns));
        report.notes.push(text);
    }
    for case in report.cases().iter().filter(|case| *case != EPOCHS) {
        let stretches: Vec<_> = COURSE.iter().map(|part| (part.name, part.name)).collect();
        let sheet = match case.as_str() {
            BENCH_2 => Sheet::new(BY_STRETCH).parts(&stretches),
            _ => Sheet::new(BY_CLASS).parts(&[("little", "little_"), ("big", "big_"), ("all", "all_")]),
        };
        report.show(sheet.of(report, case, &[case]));
        few(report, case);
    }
    picture(report);
    let rate = |name: &str| report.middle(BENCH_1, name, "epochs_per_s");
    let alone = rate(ALONE) / rate("mcs");
    if alone.is_finite() {
        report.notes.push(format!(
            "{BENCH_1}: a big thread alone makes {alone:.2} times the epochs of both with mcs"
        ));
    }
    if let Some(ceiling) = ceiling(report) {
        let text =
            format!("{BENCH_1}: at shfl-10's tail throughput can be {ceiling:.2} times its own at most");
        report.notes.push(text);
    }
    verdict::judge(report, figure);
}

/// Says which versions had too few little epochs.
fn few(report: &mut Report, case: &str) {
    let names: Vec<String> =
        report.variants(case).into_iter().filter(|name| !enough(report, case, name)).collect();
    if let Some(first) = names.first() {
        let wanted = report.middle(case, first, "little_epochs_wanted");
        report.notes.push(format!(
            "{case}: fewer than {wanted} little epochs in a run of {}: these count for no target",
            names.join(", ")
        ));
    }
}

/// The sweep: `(slo_ns, name)`, in ascending order.
pub(super) fn sweep(report: &Report) -> Vec<(f64, String)> {
    let of = |name: String| Some((report.middle(BENCH_1, &name, "slo_ns"), name));
    let mut sweep: Vec<(f64, String)> =
        report.variants(BENCH_1).into_iter().filter(|name| name.starts_with("slo ")).filter_map(of).collect();
    sweep.sort_by(|one, other| one.0.total_cmp(&other.0));
    sweep
}

/// Little threads' p99 over their target, with the line on which both are the same.
fn picture(report: &mut Report) {
    let sweep = sweep(report);
    let (Some(first), Some(last)) = (sweep.first(), sweep.last()) else { return };
    let p99 = |name: &str| report.middle(BENCH_1, name, "little_p99_ns") as u64;
    let range = (first.0 / 2.0) as u64..(last.0 * 2.0) as u64;
    let series = [
        Series {
            mark: '.',
            name: "the SLO itself, y = x",
            values_ns: sweep.iter().map(|s| s.0 as u64).collect(),
        },
        Series {
            mark: 'o',
            name: "little threads' p99",
            values_ns: sweep.iter().map(|s| p99(&s.1)).collect(),
        },
    ];
    let slos: Vec<String> = sweep.iter().map(|s| duration(s.0 as u64)).collect();
    let title = format!("Little threads' p99 over the SLO; the columns are SLOs of {}", slos.join(", "));
    let picture = plot(&title, &series, 0..0, range);
    // The columns are targets here, not seconds.
    report.plots.push(picture.replace("  second", "     SLO"));
}
