//! What the runs mean: a table for each case, notes, and the targets.

use super::REFERENCE;
use super::blob::{self, cases::BLOB};
use super::counters::{self, cases::COUNTERS};
use super::file::{self, cases::FILE};
use super::grid;
use super::judge;
use crate::cell::{number, size, throughput, time};
use crate::verdict::{middle, over};
use report::{Report, Table};

pub(super) const SINGLE: &str = "single, lock and unlock";
pub(super) const W1: &str = "w1";
pub(super) const W2: &str = "w2";
pub(super) const SHARD: &str = "shard, all within 16 KiB";
pub(super) const KEYS: &str = "keys, strings and integers";
/// The same, without any work between lock and unlock.
pub(super) const KEYS_BARE: &str = "keys, lock and unlock";
pub(super) const OVERLAP: &str = "overlap";
pub(super) const CONTENDED: &str = "contended, 8 threads, 31 % overlap";
pub(super) const SHARED: &str = "shared";
pub(super) const WIDTHS: &str = "widths, 8 threads and the whole space";
pub(super) const MEMORY: &str = "memory";
pub(super) const MEMORY_LASTING: &str = "memory, 8 threads for long";
/// The default lock with one shard and room for one range.
pub(super) const SMALLEST: &str = "manx, smallest";

/// The name of a case with `threads` threads.
pub(super) fn scaled(case: &str, threads: usize) -> String {
    format!("{case}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// The name of a case in which skip lists are of different heights.
pub(super) fn heights(workload: &str) -> String {
    format!("heights, {workload}")
}

/// The name of a case in which `percent` of a hundred pairs overlap.
pub(super) fn overlap(percent: u32) -> String {
    format!("{OVERLAP}, {percent} %")
}

/// The name of a case in which `percent` of a hundred requests read.
pub(super) fn shared(percent: u32) -> String {
    format!("{SHARED}, {percent} % read")
}

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    if report.runs.iter().any(|run| run.values.contains_key("violations")) {
        let table = checked(report);
        report.tables.push(table);
        judge::checked(report);
        return;
    }
    for case in report.cases().into_iter().filter(|case| !grid::is_cell(case)) {
        let table = match case.as_str() {
            MEMORY => memory(report),
            MEMORY_LASTING => memory_lasting(report),
            WIDTHS => widths(report),
            other if other.starts_with(BLOB) => blob::cases::table(report, other),
            other if other.starts_with(FILE) => file::cases::table(report, other),
            other if other.starts_with(COUNTERS) => counters::cases::table(report, other),
            _ => table(report, &case),
        };
        report.tables.push(table);
    }
    report.tables.extend(grid::tables(report));
    judge::judge(report);
}

/// The largest of a version's runs; `NaN` without one.
pub(super) fn worst(report: &Report, case: &str, name: &str, figure: &str) -> f64 {
    report.values(case, name, figure).into_iter().fold(f64::NAN, f64::max)
}

fn table(report: &Report, case: &str) -> Table {
    let timed = report.runs.iter().any(|run| run.case == case && run.values.contains_key("acquire_max_ns"));
    let mut headers = vec!["lock", "runs []", "pairs", "of map []", "95 % []", "slowest [x]"];
    if timed {
        headers.extend(["acquired p50", "p99", "p99.9", "max", "worst max"]);
    }
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let [of_reference, interval] = match name == REFERENCE.name() {
            true => ["1".into(), "-".into()],
            false => over(report, case, &name, REFERENCE.name(), "pairs_per_s"),
        };
        let mut row = vec![
            name.clone(),
            report.values(case, &name, "pairs_per_s").len().to_string(),
            throughput(value("pairs_per_s")),
            of_reference,
            interval,
            number(value("slowest_share")),
        ];
        if timed {
            let figures = ["acquire_p50_ns", "acquire_p99_ns", "acquire_p999_ns", "acquire_max_ns"];
            row.extend(figures.map(|figure| time(value(figure))));
            row.push(time(worst(report, case, &name, "acquire_max_ns")));
        }
        table.row(row);
    }
    table
}

/// The table of a thread that wants everything, beside threads that want little.
fn widths(report: &Report) -> Table {
    let headers = [
        "lock",
        "runs []",
        "pairs",
        "slowest [x]",
        "acquired p99",
        "max",
        "longest hold",
        "whole []",
        "whole p50",
        "whole p99",
        "whole max",
        "late",
        "over allowed [x]",
    ];
    let mut table = Table::new(WIDTHS, &headers);
    for name in report.variants(WIDTHS) {
        let value = |figure: &str| middle(report, WIDTHS, &name, figure);
        table.row([
            name.clone(),
            report.values(WIDTHS, &name, "pairs_per_s").len().to_string(),
            throughput(value("pairs_per_s")),
            number(value("slowest_share")),
            time(value("acquire_p99_ns")),
            time(value("acquire_max_ns")),
            time(value("hold_max_ns")),
            number(value("whole_count")),
            time(value("whole_p50_ns")),
            time(value("whole_p99_ns")),
            time(value("whole_max_ns")),
            time(value("late_max_ns")),
            number(value("whole_over_allowed")),
        ]);
    }
    table
}

fn memory(report: &Report) -> Table {
    let mut table =
        Table::new(MEMORY, &["lock", "runs []", "at rest []", "growth for a million pairs []", "worst []"]);
    for name in report.variants(MEMORY) {
        let grown = "grown_bytes_per_pair";
        // What the rest of the process gave back meanwhile is not the lock's merit.
        let million = |bytes: f64| size((bytes * 1e6).max(0.0));
        table.row([
            name.clone(),
            report.values(MEMORY, &name, grown).len().to_string(),
            size(middle(report, MEMORY, &name, "at_rest_bytes")),
            million(middle(report, MEMORY, &name, grown)),
            million(worst(report, MEMORY, &name, grown)),
        ]);
    }
    table
}

fn memory_lasting(report: &Report) -> Table {
    let mut table = Table::new(MEMORY_LASTING, &["lock", "runs []", "pairs []", "growth []", "worst []"]);
    for name in report.variants(MEMORY_LASTING) {
        table.row([
            name.clone(),
            report.values(MEMORY_LASTING, &name, "pairs").len().to_string(),
            format!("{:.0}", middle(report, MEMORY_LASTING, &name, "pairs")),
            size(middle(report, MEMORY_LASTING, &name, "grown_bytes")),
            size(worst(report, MEMORY_LASTING, &name, "grown_bytes")),
        ]);
    }
    table
}

/// The table of violations that were caught.
fn checked(report: &Report) -> Table {
    let mut table = Table::new("Checked", &["case", "lock", "runs []", "pairs []", "violations []"]);
    for case in report.cases() {
        for name in report.variants(&case) {
            let total = |figure: &str| report.values(&case, &name, figure).iter().sum::<f64>();
            table.row([
                case.clone(),
                name.clone(),
                report.values(&case, &name, "violations").len().to_string(),
                format!("{:.0}", total("checked_pairs")),
                format!("{:.0}", total("violations")),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn what_was_checked_is_one_table_and_judges_nothing() {
        let mut report = Report::new("range", Machine::default(), 0);
        for (round, violations) in [(0, 0.0), (1, 2.0)] {
            let values = [("checked_pairs".to_owned(), 10.0), ("violations".to_owned(), violations)].into();
            report.runs.push(Run { case: W1.into(), variant: "x".into(), round, values, output: None });
        }
        conclude(&mut report);
        assert_eq!(report.tables.len(), 1);
        assert_eq!(report.tables[0].rows, [["w1", "x", "2", "20", "2"]]);
        assert!(!report.targets.is_empty() && report.targets.iter().all(|target| target.measured.is_none()));
    }
}
