//! What the runs mean: a table for each case, and the targets.

use super::cases::{MANX, SERVED, SERVED_BUSY, TIMELINE};
use super::judge;
use crate::boosted;
use crate::cell::{number, throughput, time};
use crate::verdict::{middle, over};
use report::{Report, Table};

const READ_ONLY: &str = "read-only, ";

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    let (mut reads, mut tables) = (Vec::new(), Vec::new());
    for case in report.cases() {
        if case.starts_with(READ_ONLY) {
            reads.push(case);
        } else if [SERVED, SERVED_BUSY].contains(&case.as_str()) {
            tables.push(server(report, &case));
        } else if case != TIMELINE {
            tables.push(served(report, &case));
        }
    }
    report.tables.append(&mut tables);
    boosted::tables(report, TIMELINE);
    if !reads.is_empty() {
        let table = read_only(report, &reads);
        report.tables.push(table);
    }
    judge::judge(report);
}

/// Medians over the rounds, and the worst maximum of all of them.
fn served(report: &Report, case: &str) -> Table {
    let headers = [
        "version",
        "runs []",
        "operations",
        "of manx [x]",
        "of manx, 95 % []",
        "mean",
        "p50",
        "p99",
        "p99.9",
        "max",
        "worst max",
        "p99.9, boosted / none [x]",
        "boosted / none, 95 % []",
        "slowest thread [of mean]",
        "conflicts []",
    ];
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let maxima = report.values(case, &name, "max_ns");
        let mut row = vec![name.clone(), maxima.len().to_string(), throughput(value("throughput_per_s"))];
        row.extend(match name == MANX {
            true => ["1".into(), "-".into()],
            false => over(report, case, &name, MANX, "throughput_per_s"),
        });
        row.extend(["mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|figure| time(value(figure))));
        row.push(time(maxima.into_iter().fold(f64::NAN, f64::max)));
        let plain = name.strip_suffix(", boosted").unwrap_or_default();
        row.extend(over(report, case, &name, plain, "p999_ns"));
        row.extend(["slowest_of_mean", "conflicts"].map(|figure| number(value(figure))));
        table.row(row);
    }
    for optional in ["of manx", "of manx, 95 %", "p99.9, boosted / none", "boosted / none, 95 %"] {
        drop_empty(&mut table, optional);
    }
    table
}

/// Removes a column in which there is nothing.
fn drop_empty(table: &mut Table, name: &str) {
    let Some(at) = table.columns.iter().position(|column| column.name == name) else { return };
    if table.rows.iter().all(|row| row[at] == "-") {
        table.columns.remove(at);
        table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
    }
}

fn read_only(report: &Report, all: &[String]) -> Table {
    let headers =
        ["case", "protocol", "runs []", "begin and commit", "slowest batch", "with a get", "slowest batch"];
    let mut table = Table::new("A transaction that only reads, in one thread; batches of 1000", &headers);
    for case in all {
        for (row, name) in report.variants(case).into_iter().enumerate() {
            let value = |figure: &str| middle(report, case, &name, figure);
            let mut cells = vec![
                if row == 0 { case.clone() } else { String::new() },
                name.clone(),
                report.values(case, &name, "empty_ns").len().to_string(),
            ];
            cells.extend(
                ["empty_ns", "empty_max_ns", "get_ns", "get_max_ns"].map(|figure| time(value(figure))),
            );
            table.row(cells);
        }
    }
    table
}

/// By command, as redis-benchmark has it.
fn server(report: &Report, case: &str) -> Table {
    let headers = ["server", "runs []", "command", "requests", "p50", "p99", "p99.9", "max", "worst max"];
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        for (row, command) in ["set", "get"].into_iter().enumerate() {
            let figure = |figure: &str| format!("{command}_{figure}");
            let value = |name_of: &str| middle(report, case, &name, &figure(name_of));
            let maxima = report.values(case, &name, &figure("max_ns"));
            let mut cells = vec![
                if row == 0 { name.clone() } else { String::new() },
                maxima.len().to_string(),
                command.to_uppercase(),
                throughput(value("per_s")),
            ];
            cells.extend(["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|figure| time(value(figure))));
            cells.push(time(maxima.into_iter().fold(f64::NAN, f64::max)));
            table.row(cells);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn every_case_has_its_table_and_columns_without_a_figure_are_left_out() {
        let mut report = Report::new("txn", Machine::default(), 0);
        let mut add = |case: &str, variant: &str, figure: &str, value: f64| {
            let values = [(figure.to_owned(), value), ("max_ns".to_owned(), 1e6)].into();
            let (case, variant) = (case.to_owned(), variant.to_owned());
            report.runs.push(Run { case, variant, round: 0, values, output: None });
        };
        let (twenty, a) = (cases::allocation(20), cases::ycsb("a", None, 2));
        add(&twenty, "help", "p999_ns", 2e5);
        add(&twenty, "help, boosted", "p999_ns", 4e5);
        add(&a, "manx", "throughput_per_s", 2e6);
        add(&a, "lmdb", "throughput_per_s", 1e6);
        add(&cases::idle(0), "help", "empty_ns", 50.0);
        add(&cases::idle(10), "help", "empty_ns", 51.0);
        for case in [SERVED, SERVED_BUSY] {
            add(case, "manx", "get_per_s", 5e4);
        }
        conclude(&mut report);
        let titles: Vec<&str> = report.tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles.len(), 5, "{titles:?}");
        let boosted = &report.tables[0].rows[1];
        assert!(boosted.contains(&"2.00".to_owned()), "{boosted:?}");
        assert!(!report.tables[0].columns.iter().any(|column| column.name == "of manx"));
        assert!(report.tables[1].rows[1].contains(&"0.500".to_owned()), "{:?}", report.tables[1].rows);
        assert_eq!(report.tables[2].rows.len(), 2, "a row for each command");
        assert_eq!(report.tables[4].rows.len(), 2, "a row for each number of sessions");
        assert!(!report.to_string().contains("95 %  "), "one round has no interval");
        assert_eq!(report.ratios.len(), 2, "{:?}", report.ratios);
        assert!(!report.targets.is_empty());
    }
}
