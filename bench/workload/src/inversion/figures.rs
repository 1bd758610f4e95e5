//! The tables: medians over the rounds, percentiles beside the maximum and the slowest thread's
//! share.

use super::{AS_IS, BOOST, HEADLINE, PAIR, SWEEP, sweep_case};
use crate::verdict::over;
use report::figure::three_digits;
use report::{Report, Table, median};

/// Adds one table a case, and one for figure 4.
pub fn tables(report: &mut Report) {
    for case in [HEADLINE, BOOST, PAIR] {
        let table = summary(report, case, &[case]);
        report.tables.extend(table);
    }
    let sweep: Vec<String> = SWEEP.map(sweep_case).into();
    let cases: Vec<&str> = sweep.iter().map(String::as_str).collect();
    let table = summary(
        report,
        "8 to 80 threads, think 300 µs, without boost and with 4 boosted threads (figure 4)",
        &cases,
    );
    report.tables.extend(table);
}

/// A row for each variant of each case; `None` if nothing was run.
pub fn summary(report: &Report, title: &str, cases: &[&str]) -> Option<Table> {
    let mut table = Table::new(
        title,
        &[
            "case",
            "variant",
            "runs []",
            "throughput [op/s]",
            "of as it is []",
            "95 % []",
            "mean [µs]",
            "p50 [µs]",
            "p99.9 [ms]",
            "max [ms]",
            "worst max [ms]",
            "slowest thread [of mean]",
        ],
    );
    for case in cases {
        for (row, variant) in report.variants(case).iter().enumerate() {
            let values = |name: &str| report.values(case, variant, name);
            let middle = |name: &str, unit: f64| three_digits(median(&values(name)) / unit);
            let worst = values("max_ns").into_iter().fold(0.0, f64::max);
            let [of_as_is, interval] = match variant.as_str() {
                AS_IS => ["1".into(), "-".into()],
                _ => over(report, case, variant, AS_IS, "throughput_per_s"),
            };
            table.row([
                if row == 0 && cases.len() > 1 { (*case).into() } else { String::new() },
                variant.clone(),
                values("max_ns").len().to_string(),
                format!("{:.0}", median(&values("throughput_per_s"))),
                of_as_is,
                interval,
                middle("mean_ns", 1e3),
                middle("p50_ns", 1e3),
                middle("p999_ns", 1e6),
                middle("max_ns", 1e6),
                three_digits(worst / 1e6),
                middle("slowest_of_mean", 1.0),
            ]);
        }
    }
    if cases.len() == 1 {
        table.columns.remove(0);
        table.rows.iter_mut().for_each(|row| drop(row.remove(0)));
    }
    (!table.rows.is_empty()).then_some(table)
}
