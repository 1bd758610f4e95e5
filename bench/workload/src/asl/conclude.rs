//! What the runs mean: a table for each case, the picture of latency over its target in characters,
//! and notes.

use super::judge::{self, ceiling, enough};
use super::lengths::COURSE;
use crate::cell::{number, time};
use crate::verdict::middle;
use report::figure::{duration, rate, three_digits};
use report::plot::{Series, plot};
use report::{Report, Table};

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

/// Draws tables and the picture, and judges the targets.
pub fn conclude(report: &mut Report) {
    let pair_ns = middle(report, EPOCHS, "start and end", "pair_ns");
    if pair_ns.is_finite() {
        let text = format!("an epoch's start and end cost {} ns, nobody else running", three_digits(pair_ns));
        report.notes.push(text);
    }
    for case in report.cases().iter().filter(|case| *case != EPOCHS) {
        let table = if case == BENCH_2 { by_part(report) } else { table(report, case) };
        report.tables.push(table);
        few(report, case);
    }
    picture(report);
    let alone =
        middle(report, BENCH_1, ALONE, "epochs_per_s") / middle(report, BENCH_1, "mcs", "epochs_per_s");
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
    judge::judge(report);
}

/// Says which versions had too few little epochs.
fn few(report: &mut Report, case: &str) {
    let names: Vec<String> =
        report.variants(case).into_iter().filter(|name| !enough(report, case, name)).collect();
    if let Some(first) = names.first() {
        let wanted = middle(report, case, first, "little_epochs_wanted");
        report.notes.push(format!(
            "{case}: fewer than {wanted} little epochs in a run of {}: these count for no target",
            names.join(", ")
        ));
    }
}

/// The fewest of a version's runs.
fn least(report: &Report, case: &str, name: &str, figure: &str) -> f64 {
    report.values(case, name, figure).into_iter().fold(f64::NAN, f64::min)
}

fn table(report: &Report, case: &str) -> Table {
    let headers = [
        "version",
        "runs []",
        "epochs",
        "little epochs []",
        "slowest [x]",
        "dilation [x]",
        "SLO",
        "missed [%]",
        "who",
        "p50",
        "p99",
        "p99.9",
        "max",
    ];
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        for who in ["little", "big", "all"] {
            let first = |text: String| if who == "little" { text } else { String::new() };
            table.row([
                first(name.clone()),
                first(report.values(case, &name, "epochs_per_s").len().to_string()),
                first(rate(value("epochs_per_s"))),
                first(format!("{:.0}", least(report, case, &name, "little_epochs"))),
                first(number(value("slowest_share"))),
                first(number(value("dilation"))),
                first(time(value("slo_ns"))),
                first(number(100.0 * value("missed_share"))),
                who.into(),
                time(value(&format!("{who}_p50_ns"))),
                time(value(&format!("{who}_p99_ns"))),
                time(value(&format!("{who}_p999_ns"))),
                time(value(&format!("{who}_max_ns"))),
            ]);
        }
    }
    table
}

/// Bench-2's table: each part of the course on its own.
fn by_part(report: &Report) -> Table {
    let headers = [
        "version",
        "length",
        "epochs",
        "little epochs []",
        "SLO",
        "little p50",
        "little p99",
        "little max",
        "big p99",
        "window",
    ];
    let mut table = Table::new(BENCH_2, &headers);
    for name in report.variants(BENCH_2) {
        for (at, part) in COURSE.iter().enumerate() {
            let value = |figure: &str| middle(report, BENCH_2, &name, &format!("{}: {figure}", part.name));
            let first = |text: String| if at == 0 { text } else { String::new() };
            table.row([
                first(name.clone()),
                part.name.into(),
                rate(value("epochs_per_s")),
                number(value("little_epochs")),
                first(time(middle(report, BENCH_2, &name, "slo_ns"))),
                time(value("little_p50_ns")),
                time(value("little_p99_ns")),
                time(value("little_max_ns")),
                time(value("big_p99_ns")),
                time(value("window_ns")),
            ]);
        }
    }
    table
}

/// The sweep: `(slo_ns, name)`, in ascending order.
pub(super) fn sweep(report: &Report) -> Vec<(f64, String)> {
    let of = |name: String| Some((middle(report, BENCH_1, &name, "slo_ns"), name));
    let mut sweep: Vec<(f64, String)> =
        report.variants(BENCH_1).into_iter().filter(|name| name.starts_with("slo ")).filter_map(of).collect();
    sweep.sort_by(|one, other| one.0.total_cmp(&other.0));
    sweep
}

/// Little threads' p99 over their target, with the line on which both are the same.
fn picture(report: &mut Report) {
    let sweep = sweep(report);
    let (Some(first), Some(last)) = (sweep.first(), sweep.last()) else { return };
    let p99 = |name: &str| middle(report, BENCH_1, name, "little_p99_ns") as u64;
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
