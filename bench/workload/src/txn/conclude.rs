//! What the runs mean: a table for each case, and the targets.

use super::cases::{MANX, TIMELINE};
use super::judge::figure;
use crate::{boosted, verdict};
use report::{Report, Sheet};

const READ_ONLY: &str = "read-only, ";
/// Medians over the rounds, and the worst maximum of all of them.
const ENGINES: &str = "
    version = version | runs [] = count max_ns | operations = throughput_per_s
    ?of manx [x] = ratio throughput_per_s | ?of manx, 95 % [] = interval throughput_per_s
    mean = mean_ns | p50 = p50_ns | p99 = p99_ns | p99.9 = p999_ns | max = max_ns | worst max = worst max_ns
    ?p99.9, boosted / none [x] = @ratio | ?boosted / none, 95 % [] = @interval
    slowest thread [of mean] = slowest_of_mean | conflicts [] = conflicts";
const READS: &str = "
    case = case | protocol = version | runs [] = count empty_ns
    begin and commit = empty_ns | slowest batch = empty_max_ns | with a get = get_ns | slowest batch = get_max_ns";
/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    let (reads, others): (Vec<String>, Vec<String>) =
        report.cases().into_iter().partition(|case| case.starts_with(READ_ONLY));
    for case in others.iter().filter(|case| *case != TIMELINE) {
        report.show(Sheet::new(ENGINES).over(MANX).own(&boost).of(report, case, &[case]));
    }
    boosted::tables(report, TIMELINE);
    if !reads.is_empty() {
        let title = "A transaction that only reads, in one thread; batches of 1000";
        report.show(Sheet::new(READS).of(report, title, &reads));
    }
    verdict::judge(report, figure);
}

/// What the boost does to the version without.
fn boost(report: &Report, case: &str, name: &str, which: &str) -> String {
    let plain = name.strip_suffix(", boosted").unwrap_or_default();
    let [ratio, interval] = report.over(case, name, plain, "p999_ns");
    if which == "ratio" { ratio } else { interval }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;
    use report::Machine;

    #[test]
    fn every_case_has_its_table_and_columns_without_a_figure_are_left_out() {
        let mut report = Report::new("txn", Machine::default(), 0);
        let mut add = |case: &str, variant: &str, figure: &str, value: f64| {
            report.add(case, variant, 0, &[(figure, value), ("max_ns", 1e6)]);
        };
        let (twenty, a) = (cases::allocation(20), cases::ycsb("a", None, 2));
        add(&twenty, "help", "p999_ns", 2e5);
        add(&twenty, "help, boosted", "p999_ns", 4e5);
        add(&a, "manx", "throughput_per_s", 2e6);
        add(&a, "lmdb", "throughput_per_s", 1e6);
        add(&cases::idle(0), "help", "empty_ns", 50.0);
        add(&cases::idle(10), "help", "empty_ns", 51.0);
        conclude(&mut report);
        let titles: Vec<&str> = report.tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles.len(), 3, "{titles:?}");
        let boosted = &report.tables[0].rows[1];
        assert!(boosted.contains(&"2.00".to_owned()), "{boosted:?}");
        assert!(!report.tables[0].columns.iter().any(|column| column.name == "of manx"));
        assert!(report.tables[1].rows[1].contains(&"0.500".to_owned()), "{:?}", report.tables[1].rows);
        assert_eq!(report.tables[2].rows.len(), 2, "a row for each number of sessions");
        assert!(!report.to_string().contains("95 %  "), "one round has no interval");
        assert!(!report.targets.is_empty());
    }
}
