//! What the runs mean: a table for each case, and the targets.

use super::cases::{CLIENT, MANX, MEMORY, MESSAGES, MESSAGES_BUSY, SERVED, SERVED_BUSY, TIMELINE};
use super::judge::figure;
use super::{client, messages};
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
/// By command: redis-benchmark's own figures, and those of the part `client`.
const SERVERS: &str = "
    server = version | runs [] = count *max_ns | command = part | requests = *per_s
    p50 = *p50_ns | p99 = *p99_ns | p99.9 = *p999_ns | max = *max_ns | worst max = worst *max_ns";
/// The latencies are those of the way there and back.
const SENT: &str = "
    server = version | runs [] = count *max_ns | by = part | messages = *per_s
    p50 = *p50_ns | p99 = *p99_ns | p99.9 = *p999_ns | max = *max_ns | worst max = worst *max_ns";

/// Of the process, as the kernel counts it.
const MEMORIES: &str = "
    server = version | runs [] = count rest_bytes | ?writes = written_per_s | ?requests = requests_per_s
    ?alive = live_bytes | ?highest in the second of ten parts = early_bytes | ?in the last = late_bytes
    ?the last [x of the second] = late_of_early | ?highest = peak_bytes | ?highest of all = worst peak_bytes | at rest = rest_bytes
    ?at rest [x of what is alive] = rest_of_live | ?a connection = connection_bytes";

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    let (reads, others): (Vec<String>, Vec<String>) =
        report.cases().into_iter().partition(|case| case.starts_with(READ_ONLY));
    for case in others.iter().filter(|case| *case != TIMELINE) {
        let sheet = match case.as_str() {
            SERVED | SERVED_BUSY => Sheet::new(SERVERS).parts(&[("SET", "set_"), ("GET", "get_")]),
            client if client.starts_with(CLIENT) => Sheet::new(SERVERS).parts(&client::PHASES),
            MESSAGES | MESSAGES_BUSY => Sheet::new(SENT).parts(&messages::PHASES),
            memory if memory.starts_with(MEMORY) => Sheet::new(MEMORIES),
            _ => Sheet::new(ENGINES).over(MANX).own(&boost),
        };
        report.show(sheet.of(report, case, &[case]));
    }
    boosted::tables(report, TIMELINE);
    if !reads.is_empty() {
        let title = "A transaction that only reads, in one thread; batches of 1000";
        report.show(Sheet::new(READS).of(report, title, &reads));
    }
    for case in others.iter().filter(|case| case.starts_with(CLIENT)) {
        verdict::compare(report, &client::compared(case));
    }
    for case in others.iter().filter(|case| [MESSAGES, MESSAGES_BUSY].contains(&case.as_str())) {
        verdict::compare(report, &messages::compared(case));
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
    use super::super::cases::{self, REDIS};
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
        for case in [SERVED, SERVED_BUSY] {
            add(case, "manx", "get_per_s", 5e4);
        }
        for (version, rate) in [(REDIS, 1e5), (MANX, 9e4)] {
            add(&cases::client(50), version, "new_per_s", rate);
            add(&cases::client(50), version, "get_max_ns", 2e6);
        }
        conclude(&mut report);
        let titles: Vec<&str> = report.tables.iter().map(|table| table.title.as_str()).collect();
        assert_eq!(titles.len(), 6, "{titles:?}");
        let boosted = &report.tables[0].rows[1];
        assert!(boosted.contains(&"2.00".to_owned()), "{boosted:?}");
        assert!(!report.tables[0].columns.iter().any(|column| column.name == "of manx"));
        assert!(report.tables[1].rows[1].contains(&"0.500".to_owned()), "{:?}", report.tables[1].rows);
        assert_eq!(report.tables[2].rows.len(), 2, "a row for each command");
        assert_eq!(report.tables[4].rows.len(), 6, "a row for each server and phase");
        assert_eq!(report.tables[5].rows.len(), 2, "a row for each number of sessions");
        assert!(!report.to_string().contains("95 %  "), "one round has no interval");
        let ratios: Vec<_> =
            report.ratios.iter().map(|ratio| (ratio.measure.as_str(), ratio.ratio)).collect();
        assert_eq!(ratios[..2], [("new_per_s", 0.9), ("get_max_ns", 1.0)]);
        assert_eq!(ratios.len(), 4, "{ratios:?}");
        assert!(!report.targets.is_empty());
    }
}
