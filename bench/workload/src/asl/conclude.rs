//! Tables, notes, and a plot of latency over the target in characters.

use super::cases::{ALONE, BENCH_1, BENCH_2, EPOCHS};
use super::judge::{ceiling, enough, figure, sweep};
use super::part::PHASES;
use super::{competing, paper, printed};
use crate::verdict;
use report::figure::{duration, three_digits};
use report::plot::{Series, plot};
use report::{Report, Sheet};

/// A row for each class of threads.
const BY_CLASS: &str = "
    version = version | runs [] = count epochs_per_s | epochs = epochs_per_s
    little epochs [] = least whole little_epochs | slowest [x] = slowest_share | dilation [x] = dilation
    SLO = slo_ns | missed [%] = missed_share
    who = part | p50 = *p50_ns | p99 = *p99_ns | p99.9 = *p999_ns | max = *max_ns";
/// Bench-2: a row for each phase.
const BY_PHASE: &str = "
    version = version | length = part | epochs = *: epochs_per_s | little epochs [] = *: little_epochs
    SLO = slo_ns | little p50 = *: little_p50_ns | little p99 = *: little_p99_ns | little max = *: little_max_ns
    big p99 = *: big_p99_ns | window = *: window_ns";

/// Adds tables and the plot, and judges the targets.
pub fn conclude(report: &mut Report) {
    let pair_ns = report.middle(EPOCHS, "start and end", "pair_ns");
    if pair_ns.is_finite() {
        let text = format!("an epoch's start and end cost {} ns, nobody else running", three_digits(pair_ns));
        report.notes.push(text);
    }
    for case in report.cases().iter().filter(|case| *case != EPOCHS) {
        if competing::conclude(report, case) {
            continue;
        }
        let phases: Vec<_> = PHASES.iter().map(|part| (part.name, part.name)).collect();
        let sheet = match case.as_str() {
            BENCH_2 => Sheet::new(BY_PHASE).parts(&phases),
            _ => Sheet::new(BY_CLASS).parts(&[("little", "little_"), ("big", "big_"), ("all", "all_")]),
        };
        report.show(sheet.of(report, case, &[case]));
        few(report, case);
    }
    picture(report);
    for table in [printed::table(report), paper::table(report)].into_iter().flatten() {
        report.show(table);
    }
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

/// Notes which versions had too few little epochs.
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

/// Plots the little threads' p99 over their target, with the line on which both are equal.
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
