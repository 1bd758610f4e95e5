//! What the runs mean: a table for each case, notes, and the targets.

use super::case::{
    BLOB, CONTENDED, COUNTERS, FILE, MEMORY, MEMORY_LASTING, SHARD, SHARED, THESIS, W1, W1_SHUFFLED, W2,
    W2_SHUFFLED, WIDTHS, blob, heights, overlap, scaled, shared,
};
use super::cell::is_cell;
use super::competitor::REFERENCE;
use super::file::{Regions, case as file};
use super::grid;
use super::judge;
use super::overlapping::{OVERLAPS, READERS};
use super::request::THREADS_MAX;
use super::variant::Output;
use crate::drawing::{
    Axis, Charts, LATENCY, chart, colour, dots, over, panels, per_cent, rates, those, version_shares, whole,
};
use crate::verdict;
use report::chart::{Chart, Panel};
use report::sheet::size;
use report::{Histogram, Report, Sheet};

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
    copied = bytes_per_s | slowest [x] = slowest_share | taken [] = taken
    reserved p50 = reserve_p50_ns | p99 = reserve_p99_ns | p99.9 = reserve_p999_ns | max = reserve_max_ns
    worst max = worst reserve_max_ns
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

/// What is drawn over something that differs from case to case.
const FIGURES: &str = "pairs per second = pairs_per_s | objects per second = reads_per_s | \
    writes per second = writes_per_s | acquired p99.9 = acquire_p999_ns | acquired max = acquire_max_ns | \
    reserved p99.9 = reserve_p999_ns | reserved max = reserve_max_ns | \
    read p99.9 = read_p999_ns | read max = read_max_ns | written p99.9 = write_p999_ns | \
    written max = write_max_ns";

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Charts {
    let overlaps = OVERLAPS.map(|percent| (f64::from(percent), overlap(percent)));
    let readers = READERS.map(|percent| (f64::from(percent), shared(percent)));
    let over = |places: &[(f64, String)], title: &str, axis: Axis| {
        let panels = panels(FIGURES, |figure| over(report, places, figure));
        chart(title, axis, panels.into_iter().map(|panel| Panel { logarithmic: true, ..panel }).collect())
    };
    // Figures 5.2 and 5.3: over the number of threads.
    let scaling = |case: &str, title: &str| {
        let counts = (1..=THREADS_MAX).map(|threads| (threads as f64, scaled(case, threads)));
        over(&counts.collect::<Vec<_>>(), title, ("threads", false, whole))
    };
    let asked = format!("{SHARED}: 31 % overlap, and some only read");
    those([
        ("w1", scaling(W1, "w1: a range at a time, each thread its own slice")),
        ("w2", scaling(W2, "w2: sixteen ranges at a time, each thread its own slice")),
        ("w1-shuffled", scaling(W1_SHUFFLED, "w1: a range at a time, shuffled")),
        ("w2-shuffled", scaling(W2_SHUFFLED, "w2: sixteen ranges at a time, shuffled")),
        ("shard", scaling(SHARD, "shard: each thread its own slice of 16 KiB")),
        ("heights", levels(report)),
        (
            "overlap",
            over(
                &overlaps,
                "overlap: how many pairs of requests overlap",
                ("pairs that overlap", false, per_cent),
            ),
        ),
        ("contended", cumulative(report, CONTENDED, |output| output.acquire)),
        ("shared", over(&readers, &asked, ("requests that read", false, per_cent))),
        ("widths", cumulative(report, WIDTHS, |output| output.whole)),
        ("blob", scaling(&blob(THESIS), "blob: objects of 1 MiB in an area that all share")),
        ("file-own", scaling(&file(Regions::Own), "file: writes, each thread its own part of it")),
        ("file-overlapping", scaling(&file(Regions::Anywhere), "file: writes anywhere in it")),
    ])
}

/// Figure 5.1: over the height of the skip list, of each workload.
fn levels(report: &Report) -> Option<Chart> {
    let mut panels = Vec::new();
    for (at, workload) in [W1_SHUFFLED, W2_SHUFFLED].into_iter().enumerate() {
        let start = heights(workload);
        for case in report.cases().iter().filter(|case| case.starts_with(&start)) {
            let place = |name: &String| {
                let height = name.strip_prefix("height ")?.parse::<f64>().ok()?;
                Some((height, report.middle(case, name, "pairs_per_s")))
            };
            let points = report.variants(case).iter().filter_map(place).collect();
            panels.push(rates("pairs per second", vec![dots(case, colour(at), points)]));
        }
    }
    chart("heights: the skip list with more and more levels", ("levels", false, whole), panels)
}

/// Share of acquisitions over latency, of each lock.
fn cumulative(report: &Report, case: &str, of: impl Fn(Output) -> Histogram) -> Option<Chart> {
    let all = |name: &str| report.outputs(case, name).map(&of).sum();
    let panel = version_shares("share", &report.variants(case), all);
    let title = format!("{case}: share of acquisitions that took at most so long");
    chart(&title, LATENCY, vec![panel])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::case::W1;
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
