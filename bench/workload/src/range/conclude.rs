//! What the runs mean: a table for each case, notes, and the targets.

use super::case::{BLOB, COUNTERS, FILE, MEMORY, MEMORY_LASTING, WIDTHS};
use super::cell::is_cell;
use super::competitor::REFERENCE;
use super::grid;
use super::judge;
use crate::verdict;
use report::cell::size;
use report::{Report, Sheet};

const TABLE: &str = "
    lock = version | runs [] = count pairs_per_s | pairs = pairs_per_s
    of map [] = ratio pairs_per_s | 95 % [] = interval pairs_per_s | slowest [x] = slowest_share
    ?acquired p50 = acquire_p50_ns | ?p99 = acquire_p99_ns | ?p99.9 = acquire_p999_ns
    ?max = acquire_max_ns | ?worst max = worst acquire_max_ns";
/// A thread that wants everything, beside threads that want little.
const WIDTHS_TABLE: &str = "
    lock = version | runs [] = count pairs_per_s | pairs = pairs_per_s | slowest [x] = slowest_share
    acquired p99 = acquire_p99_ns | max = acquire_max_ns | longest hold = hold_max_ns
    whole [] = whole_count | whole p50 = whole_p50_ns | whole p99 = whole_p99_ns | whole max = whole_max_ns
    late = late_max_ns | over allowed [x] = whole_over_allowed";
const BLOB_TABLE: &str = "
    lock = version | runs [] = count reads_per_s | reads = reads_per_s
    of map [] = ratio reads_per_s | 95 % [] = interval reads_per_s
    copied = bytes_per_s | slowest [x] = slowest_share | taken [] = taken | waited [] = waited
    reserved p50 = reserve_p50_ns | p99 = reserve_p99_ns | max = reserve_max_ns
    read p50 = read_p50_ns | p99 = read_p99_ns | p99.9 = read_p999_ns | max = read_max_ns
    worst max = worst read_max_ns";
const FILE_TABLE: &str = "
    lock = version | runs [] = count writes_per_s | writes = writes_per_s
    of map [] = ratio writes_per_s | 95 % [] = interval writes_per_s
    written = bytes_per_s | slowest [x] = slowest_share
    written p50 = write_p50_ns | p99 = write_p99_ns | p99.9 = write_p999_ns | max = write_max_ns
    worst max = worst write_max_ns";
/// What was not counted has a dash.
const COUNTERS_TABLE: &str = "
    lock = version | runs [] = rounds | cycles [] = cycles_per_operation
    instructions [] = instructions_per_operation | L1d misses [] = l1d_misses_per_operation";
const MEMORY_TABLE: &str = "
    lock = version | runs [] = count grown_bytes_per_pair | at rest [] = at_rest_bytes
    growth for a million pairs [] = @middle | worst [] = @worst";
const MEMORY_LASTING_TABLE: &str = "
    lock = version | runs [] = count pairs | pairs [] = whole pairs
    growth [] = grown_bytes | worst [] = worst grown_bytes";
/// Violations that were caught.
const CHECKED_TABLE: &str = "
    case = every case | lock = version | runs [] = count violations
    pairs [] = sum whole checked_pairs | violations [] = sum whole violations";

/// The growth for a million pairs. What the rest of the process gave back meanwhile is not the
/// lock's merit.
fn growth(report: &Report, case: &str, name: &str, which: &str) -> String {
    let of = if which == "worst" { Report::worst } else { Report::middle };
    size((of(report, case, name, "grown_bytes_per_pair") * 1e6).max(0.0))
}

/// Draws tables and judges the targets.
pub fn conclude(report: &mut Report) {
    if report.runs.iter().any(|run| run.values.contains_key("violations")) {
        report.show(Sheet::new(CHECKED_TABLE).of(report, "Checked", &report.cases()));
        verdict::judge_or(report, |_, _| Err("locks were checked".into()));
        return;
    }
    for case in report.cases().into_iter().filter(|case| !is_cell(case)) {
        let columns = match case.as_str() {
            MEMORY => MEMORY_TABLE,
            MEMORY_LASTING => MEMORY_LASTING_TABLE,
            WIDTHS => WIDTHS_TABLE,
            other if other.starts_with(BLOB) => BLOB_TABLE,
            other if other.starts_with(FILE) => FILE_TABLE,
            other if other.starts_with(COUNTERS) => COUNTERS_TABLE,
            _ => TABLE,
        };
        let sheet = Sheet::new(columns).over(REFERENCE.name()).own(&growth);
        report.show(sheet.of(report, &case, &[&case]));
    }
    report.tables.extend(grid::tables(report));
    judge::judge(report);
}

#[cfg(test)]
mod tests {
    use super::super::case::W1;
    use super::*;
    use report::Machine;

    #[test]
    fn checked_pairs_are_one_table_and_judge_no_target() {
        let mut report = Report::new("range", Machine::default(), 0);
        for (round, violations) in [(0, 0.0), (1, 2.0)] {
            report.add(W1, "x", round, &[("checked_pairs", 10.0), ("violations", violations)]);
        }
        conclude(&mut report);
        assert_eq!(report.tables.len(), 1);
        assert_eq!(report.tables[0].rows, [["w1", "x", "2", "20", "2"]]);
        assert!(!report.targets.is_empty() && report.targets.iter().all(|target| target.measured.is_none()));
    }
}
