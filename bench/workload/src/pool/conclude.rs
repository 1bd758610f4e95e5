//! What the runs mean: a table for each case, and the targets.

use super::cases::{BURST, IDLE, MIXED, SHARING, SUBMIT_INSIDE, SUBMIT_OUTSIDE};
use super::judge;
use crate::cell::{number, throughput, time};
use crate::verdict::middle;
use report::{Report, Table};

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    for case in report.cases() {
        let mut tables = match case.as_str() {
            BURST => vec![burst(report)],
            IDLE => vec![idle(report)],
            SUBMIT_OUTSIDE | SUBMIT_INSIDE => vec![submit(report, &case)],
            MIXED | SHARING => vec![served(report, &case), apart(report, &case)],
            _ => vec![served(report, &case)],
        };
        report.tables.append(&mut tables);
    }
    judge::judge(report);
}

/// The largest of a version's runs; `NaN` without one.
fn worst(report: &Report, case: &str, name: &str, figure: &str) -> f64 {
    report.values(case, name, figure).into_iter().fold(f64::NAN, f64::max)
}

fn runs(report: &Report, case: &str, name: &str) -> String {
    report.runs.iter().filter(|run| run.case == case && run.variant == name).count().to_string()
}

fn percent(share: f64) -> String {
    number(share * 100.0)
}

/// An open loop: medians over the rounds, and the worst maximum of all of them.
fn served(report: &Report, case: &str) -> Table {
    let headers = [
        "pool",
        "runs []",
        "jobs",
        "least served [x]",
        "queue p99",
        "max",
        "service p50",
        "p99",
        "max",
        "total p50",
        "p99",
        "max",
        "worst max",
        "left [%]",
        "late p99",
        "max",
        "CPU [%]",
        "control [%]",
        "throttled [%]",
    ];
    let mut table = Table::new(case, &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let mut row = vec![
            name.clone(),
            runs(report, case, &name),
            throughput(value("jobs_per_s")),
            number(value("slowest_share")),
        ];
        let latencies = [
            "queue_p99_ns",
            "queue_max_ns",
            "service_p50_ns",
            "service_p99_ns",
            "service_max_ns",
            "total_p50_ns",
            "total_p99_ns",
            "total_max_ns",
        ];
        row.extend(latencies.map(|figure| time(value(figure))));
        row.push(time(worst(report, case, &name, "total_max_ns")));
        row.push(percent(value("unfinished_share")));
        row.extend(["late_p99_ns", "late_max_ns"].map(|figure| time(value(figure))));
        row.extend([
            percent(value("cpu_share")),
            number(value("control_percent")),
            percent(value("throttled_share")),
        ]);
        table.row(row);
    }
    table
}

/// Two processes that are not alike.
fn apart(report: &Report, case: &str) -> Table {
    let headers = [
        "pools",
        "first",
        "second",
        "first / second [x]",
        "first: service p99",
        "max",
        "total p99",
        "max",
        "second: service p99",
        "max",
        "total p99",
        "max",
    ];
    let mut table = Table::new(&format!("{case}: each of the two"), &headers);
    for name in report.variants(case) {
        let value = |figure: &str| middle(report, case, &name, figure);
        let mut row = vec![name.clone()];
        row.extend(["first_per_s", "second_per_s"].map(|figure| throughput(value(figure))));
        row.push(number(value("first_over_second")));
        for who in ["first", "second"] {
            let figures = ["service_p99_ns", "service_max_ns", "total_p99_ns", "total_max_ns"];
            row.extend(figures.map(|figure| time(value(&format!("{who}_{figure}")))));
        }
        table.row(row);
    }
    table
}

fn burst(report: &Report) -> Table {
    let title = "burst: after a rest, from the first submission until all workers run";
    let headers = ["pool", "runs []", "p50", "p99", "max", "worst max", "never [bursts]"];
    let mut table = Table::new(title, &headers);
    for name in report.variants(BURST) {
        let value = |figure: &str| middle(report, BURST, &name, figure);
        let mut row = vec![name.clone(), runs(report, BURST, &name)];
        row.extend(["ramp_p50_ns", "ramp_p99_ns", "ramp_max_ns"].map(|figure| time(value(figure))));
        row.push(time(worst(report, BURST, &name, "ramp_max_ns")));
        row.push(number(report.values(BURST, &name, "incomplete").iter().sum()));
        table.row(row);
    }
    table
}

fn idle(report: &Report) -> Table {
    let headers = ["pool", "runs []", "of one CPU [%]", "worst [%]", "wake-ups [/s]", "worst [/s]"];
    let mut table = Table::new("idle: a pool that has nothing to do", &headers);
    for name in report.variants(IDLE) {
        let mut row = vec![name.clone(), runs(report, IDLE, &name)];
        for figure in ["idle_cpu_percent", "idle_wakeups_per_s"] {
            row.push(number(middle(report, IDLE, &name, figure)));
            row.push(number(worst(report, IDLE, &name, figure)));
        }
        table.row(row);
    }
    table
}

fn submit(report: &Report, case: &str) -> Table {
    let mut table = Table::new(case, &["pool", "runs []", "a job", "worst"]);
    for name in report.variants(case) {
        table.row([
            name.clone(),
            runs(report, case, &name),
            time(middle(report, case, &name, "ns_per_job")),
            time(worst(report, case, &name, "ns_per_job")),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::cases::{Amount, neighbours};
    use report::{Machine, Run};

    #[test]
    fn every_case_has_its_table_and_targets_have_their_ratios() {
        let mut report = Report::new("pool", Machine::default(), 0);
        let overload = neighbours(Amount::Overload, 2);
        let mut add = |case: &str, variant: &str, figure: &str, value: f64| {
            let values = [(figure.to_owned(), value)].into();
            report.runs.push(Run {
                case: case.into(),
                variant: variant.into(),
                round: 0,
                values,
                output: None,
            });
        };
        add(&overload, "ignorant", "jobs_per_s", 1000.0);
        add(&overload, "manx", "jobs_per_s", 1100.0);
        add(BURST, "manx", "ramp_max_ns", 5e5);
        add(IDLE, "manx", "idle_cpu_percent", 0.5);
        add(SUBMIT_INSIDE, "manx", "ns_per_job", 200.0);
        add(MIXED, "manx + ignorant", "first_over_second", 0.9);
        conclude(&mut report);
        assert_eq!(report.tables.len(), 6, "a mixed case has two");
        assert_eq!(report.tables[0].rows[0][2], "1.00k/s");
        assert_eq!(report.ratios.len(), 1);
        assert!((report.ratios[0].ratio - 1.1).abs() < 1e-9);
        assert!(!report.targets.is_empty());
    }
}
