//! What the runs mean: a table for each case, notes, and the targets.

use super::competitor::{Competitor, OWN, REFERENCE, peer};
use super::file::{Regions, case as file};
use super::grid::{self, is_cell, standing};
use super::overlapping::{OVERLAPS, READERS};
use super::plan::{
    BLOB, CONTENDED, COUNTERS, FILE, KEYS, MEMORY, MEMORY_LASTING, Output, PAIRS, SHARD, SHARED, SINGLE,
    SMALLEST, THESIS, W1, W2, WIDTHS, blob, heights, overlap, scaled, shared,
};
use super::request::THREADS_MAX;
use super::strings::Shape;
use crate::drawing::{
    Axis, Charts, LATENCY, chart, colour, dots, over, panels, per_cent, rates, those, version_shares, whole,
};
use crate::verdict::{self, Figure};
use report::chart::{Chart, Panel};
use report::figure::three_digits;
use report::sheet::size;
use report::{Compared, Histogram, Report, Sheet};

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
    judge(report);
}

// Which figure each target is about.
//
// A peer is every lock that is not the default one and that locks. The best peer is the best in
// this very run.

/// The thesis' lock: as it is here, and as it was published.
const SKIP_LIST: &str = Competitor::SkipList.name();
const PUBLISHED: &str = Competitor::SkipListPublished.name();
const RANGE_MUTEX: &str = Competitor::RangeMutexCrate.name();
const BITMAP: &str = Competitor::Bitmap.name();

/// Adds the verdicts, and which the best peers were.
pub(super) fn judge(report: &mut Report) {
    let mut best = Vec::new();
    verdict::judge(report, |report, id| {
        let (figure, against) = figure(report, id)?;
        best.extend(against.filter(|text| !best.contains(text)));
        Some(figure)
    });
    report.notes.extend(best);
}

/// The ratios that a case goes on for.
pub(super) fn watched(report: &Report, case: &str) -> Vec<Compared> {
    verdict::watched(report, case, |report, id| Some(figure(report, id)?.0))
}

/// True of a version that locks blocks.
fn has_blocks(name: &str) -> bool {
    Competitor::ALL.iter().any(|competitor| competitor.has_blocks() && competitor.name() == name)
}

/// The peer whose figure is the largest, or the smallest; of all peers, or of the peers that do not
/// lock blocks.
fn best(report: &Report, case: &str, figure: &str, largest: bool, blocks: bool) -> Option<(f64, String)> {
    let of = |name: String| (report.middle(case, &name, figure), name);
    let takes_part = |name: &String| peer(name) && (blocks || !has_blocks(name));
    let peers = report.variants(case).into_iter().filter(takes_part).map(of);
    let better = |one: &(f64, String), other: &(f64, String)| one.0.total_cmp(&other.0);
    let peers = peers.filter(|(value, _)| value.is_finite());
    if largest { peers.max_by(better) } else { peers.min_by(better) }
}

/// What a target looks at, and which the best peer was, in words.
type Looks = (Figure, Option<String>);

/// What a target looks at by its id; `None` if there is no such figure.
fn figure(report: &Report, id: &str) -> Option<Looks> {
    let over = |case: &str, one: &str, other: &str, figure: &str| -> Looks {
        (Figure::ratio(case, one, other, figure), None)
    };
    let over_best = |case: &str, figure: &str, largest: bool| -> Looks {
        let own = report.middle(case, OWN, figure);
        // Locks of blocks that are told the workload's own grid lock numbers, not ranges: they are
        // named, and judge nothing.
        match best(report, case, figure, largest, false) {
            Some((_, name)) if own.is_finite() => {
                let mut text = format!("{case}: the best peer is {name}");
                if let Some((other, any)) =
                    best(report, case, figure, largest, true).filter(|(_, any)| has_blocks(any))
                {
                    let ratio = three_digits(own / other);
                    text.push_str(&format!(
                        "; {any} locks blocks of the very width that is asked for, and against it the figure is {ratio}"
                    ));
                }
                (Figure::ratio(case, OWN, &name, figure), Some(text))
            }
            _ => (Figure::missing(), None),
        }
    };
    let plain = |case: &str, name: &str, figure: &str| -> Looks {
        (Figure::Plain(report.middle(case, name, figure)), None)
    };
    // range-WORKLOAD-THREADS-AGAINST
    let words: Vec<&str> = id.split('-').collect();
    if let ["range", workload @ ("w1" | "w2" | "shard"), threads, against] = words[..] {
        let workload = match workload {
            "w1" => W1,
            "w2" => W2,
            _ => SHARD,
        };
        let case = scaled(workload, threads.parse().ok()?);
        return match against {
            "thesis" => Some(over(&case, OWN, PUBLISHED, PAIRS)),
            "peer" => Some(over_best(&case, PAIRS, true)),
            _ => None,
        };
    }
    Some(match id {
        "range-single-mutex" => over(SINGLE, OWN, RANGE_MUTEX, PAIRS),
        "range-single-thesis" => over(SINGLE, OWN, PUBLISHED, PAIRS),
        "range-contended-p999" => over(CONTENDED, OWN, REFERENCE.name(), "acquire_p999_ns"),
        "range-contended-max" => over_best(CONTENDED, "acquire_max_ns", false),
        "range-contended-throughput" => over(CONTENDED, OWN, REFERENCE.name(), PAIRS),
        "range-contended-share" => plain(CONTENDED, OWN, "slowest_share"),
        "range-grid-median" => {
            (standing::median_ratio(report).map_or_else(Figure::missing, Figure::Known), None)
        }
        "range-grid-least" => standing::least(report)
            .map_or((Figure::missing(), None), |(least, words)| (Figure::Ratio(least), Some(words))),
        "range-whole" => plain(WIDTHS, OWN, "whole_over_allowed"),
        "range-skip-list-w1" => over(&scaled(W1, 2), SKIP_LIST, PUBLISHED, PAIRS),
        "range-skip-list-w2" => over(&scaled(W2, 2), SKIP_LIST, PUBLISHED, PAIRS),
        "range-skip-list-growth" => plain(MEMORY, SKIP_LIST, "grown_bytes_per_pair"),
        "range-growth" => plain(MEMORY, OWN, "grown_bytes_per_pair"),
        "range-skip-list-flat" => plain(MEMORY_LASTING, SKIP_LIST, "grown_bytes_per_pair"),
        "range-flat" => plain(MEMORY_LASTING, OWN, "grown_bytes_per_pair"),
        "range-blob-2" => over(&scaled(&blob(THESIS), 2), OWN, BITMAP, "reads_per_s"),
        "range-blob-8" => over(&scaled(&blob(THESIS), 8), OWN, BITMAP, "reads_per_s"),
        "range-keys" => over(&scaled(KEYS, 2), Shape::Numbers.name(), OWN, PAIRS),
        "range-size" => plain(MEMORY, OWN, "at_rest_bytes"),
        "range-size-smallest" => plain(MEMORY, SMALLEST, "at_rest_bytes"),
        _ => return None,
    })
}

/// What is drawn over something that differs from case to case.
const FIGURES: &str = "pairs per second = pairs_per_s | objects per second = reads_per_s | \
    writes per second = writes_per_s | acquired p99.9 = acquire_p999_ns | acquired max = acquire_max_ns | \
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
    for (at, workload) in [W1, W2].into_iter().enumerate() {
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
    use crate::range::plan::W1;
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

    fn add(report: &mut Report, case: &str, name: &str, values: &[(&str, f64)]) {
        let round = report.runs_of(case, name).count();
        report.add(case, name, round, values);
    }

    fn measured(report: &Report, id: &str) -> f64 {
        figure(report, id).expect("a known target").0.value(report)
    }

    #[test]
    fn the_best_peer_is_neither_the_own_lock_nor_none() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(W1, 8);
        for (name, pairs) in [("map", 10.0), ("x", 20.0), ("none", 400.0)] {
            add(&mut report, &case, name, &[(PAIRS, pairs)]);
        }
        assert!(measured(&report, "range-w1-8-peer").is_nan());
        add(&mut report, &case, OWN, &[(PAIRS, 100.0)]);
        assert_eq!(measured(&report, "range-w1-8-peer"), 5.0);
        crate::range::conclude(&mut report);
        let noted = "w1, 8 threads: the best peer is x";
        assert!(report.notes.iter().any(|note| note == noted), "{:?}", report.notes);
        let verdict = report.targets.iter().find(|verdict| verdict.id == "range-w1-8-peer").unwrap();
        assert_eq!((verdict.measured, verdict.pairs), (Some(5.0), Some(1)));
    }

    #[test]
    fn a_lock_of_blocks_is_named_and_judges_nothing() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(W1, 2);
        for (name, pairs) in [("map", 10.0), ("segments", 50.0), (OWN, 40.0)] {
            add(&mut report, &case, name, &[(PAIRS, pairs)]);
        }
        let (ratio, text) = figure(&report, "range-w1-2-peer").unwrap();
        assert_eq!(ratio.value(&report), 4.0);
        let text = text.unwrap();
        assert!(text.contains("the best peer is map; segments locks blocks"), "{text}");
        assert!(text.ends_with("against it the figure is 0.800"), "{text}");
    }

    #[test]
    fn of_maxima_the_smallest_is_the_best() {
        let mut report = Report::new("range", Machine::default(), 0);
        for (name, max_ns) in [("map", 10.0), ("x", 5.0), (OWN, 20.0)] {
            add(&mut report, CONTENDED, name, &[("acquire_max_ns", max_ns)]);
        }
        assert_eq!(measured(&report, "range-contended-max"), 4.0);
    }

    #[test]
    fn every_target_has_a_figure_and_others_have_none() {
        let figure = |report: &Report, id: &str| Some(figure(report, id)?.0);
        verdict::check_ids("range", figure, &["range-nothing", "range-w1-2-dog"]);
    }
}
