//! The thesis' figures 5.1 to 5.3 and what goes beyond them, with what was measured here.

use super::case::{CONTENDED, SHARD, SHARED, THESIS, W1, W2, WIDTHS, blob, heights, overlap, scaled, shared};
use super::file::{Regions, cases::case as file};
use super::overlapping::{OVERLAPS, READERS};
use super::request::THREADS_MAX;
use super::sample::Output;
use crate::drawing::{
    Axis, Charts, LATENCY, chart, colour, dots, over, panels, per_cent, rates, those, version_shares, whole,
};
use report::chart::{Chart, Panel};
use report::{Histogram, Report};

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
