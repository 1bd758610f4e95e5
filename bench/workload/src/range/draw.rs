//! The thesis' figures 5.1 to 5.3 and what goes beyond them, with what was measured here.

use super::blob::cases::thesis as blob;
use super::conclude::{CONTENDED, SHARD, SHARED, W1, W2, WIDTHS, heights, overlap, scaled, shared};
use super::file::{Regions, cases::case as file};
use super::overlapping::{OVERLAPS, READERS};
use super::sample::Output;
use crate::drawing::{curve, dots, duration, line, per_cent, percent, whole};
use crate::verdict::middle;
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, figure};

/// Colours of locks.
const COLOURS: [u32; 18] = [
    0xd6_27_28, 0x1f_77_b4, 0x2c_a0_2c, 0xe6_7e_00, 0x94_67_bd, 0x8c_56_4b, 0xe3_77_c2, 0x17_be_cf,
    0xbc_bd_22, 0x33_33_99, 0x00_66_66, 0x99_00_33, 0x88_88_88, 0x66_99_00, 0xff_99_99, 0x00_00_00,
    0x66_33_cc, 0x00_99_ff,
];

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Vec<(String, Chart)> {
    let charts = [
        ("w1", scaling(report, W1, "w1: a range at a time, each thread its own slice")),
        ("w2", scaling(report, W2, "w2: sixteen ranges at a time, each thread its own slice")),
        ("shard", scaling(report, SHARD, "shard: each thread its own slice of 16 KiB")),
        ("heights", levels(report)),
        ("overlap", overlaps(report)),
        ("contended", cumulative(report, CONTENDED, |output| output.acquire)),
        ("shared", readers(report)),
        ("widths", cumulative(report, WIDTHS, |output| output.whole)),
        ("blob", scaling(report, &blob(), "blob: objects of 1 MiB in an area that all share")),
        ("file-own", scaling(report, &file(Regions::Own), "file: writes, each thread its own part of it")),
        ("file-overlapping", scaling(report, &file(Regions::Anywhere), "file: writes anywhere in it")),
    ];
    charts.into_iter().filter_map(|(name, chart)| Some((name.into(), chart?))).collect()
}

/// Throughput, and the 99.9th percentile of acquisitions, over something that differs from case to
/// case.
fn over(
    report: &Report,
    places: &[(f64, String)],
    title: &str,
    name: &str,
    label: fn(f64) -> String,
) -> Option<Chart> {
    let measured = report.cases();
    let places: Vec<_> = places.iter().filter(|(_, case)| measured.contains(case)).collect();
    let names = report.variants(&places.first()?.1);
    let series = |figure: &str| -> Vec<Series> {
        let finite = |name: &str| {
            let of = places.iter().map(|(x, case)| (*x, middle(report, case, name, figure)));
            of.filter(|(_, value)| value.is_finite()).collect::<Vec<_>>()
        };
        let drawn = names.iter().enumerate();
        drawn
            .map(|(at, name)| dots(name, COLOURS[at % COLOURS.len()], finite(name)))
            .filter(|series| !series.points.is_empty())
            .collect()
    };
    let panel = |name: &str, label, series: Vec<Series>| Panel {
        name: name.into(),
        logarithmic: true,
        label,
        series,
    };
    let rates = [
        ("pairs per second", "pairs_per_s"),
        ("objects per second", "reads_per_s"),
        ("writes per second", "writes_per_s"),
    ];
    let mut panels: Vec<Panel> =
        rates.into_iter().map(|(name, figure)| panel(name, figure::rate, series(figure))).collect();
    for (name, figure) in [
        ("acquired p99.9", "acquire_p999_ns"),
        ("acquired max", "acquire_max_ns"),
        ("read p99.9", "read_p999_ns"),
        ("read max", "read_max_ns"),
        ("written p99.9", "write_p999_ns"),
        ("written max", "write_max_ns"),
    ] {
        panels.push(panel(name, duration, series(figure)));
    }
    panels.retain(|panel| !panel.series.is_empty());
    Some(Chart { title: title.into(), name: name.into(), logarithmic: false, label, panels })
}

/// Figures 5.2 and 5.3: over the number of threads.
fn scaling(report: &Report, case: &str, title: &str) -> Option<Chart> {
    let places: Vec<_> =
        (1..=super::THREADS_MAX).map(|threads| (threads as f64, scaled(case, threads))).collect();
    over(report, &places, title, "threads", whole)
}

/// Figure 5.1: over the height of the skip list, of each workload.
fn levels(report: &Report) -> Option<Chart> {
    let mut panels = Vec::new();
    for (at, workload) in [W1, W2].into_iter().enumerate() {
        let start = heights(workload);
        for case in report.cases().iter().filter(|case| case.starts_with(&start)) {
            let place = |name: &String| {
                let height = name.strip_prefix("height ")?.parse::<f64>().ok()?;
                Some((height, middle(report, case, name, "pairs_per_s")))
            };
            let points = report.variants(case).iter().filter_map(place).collect();
            panels.push(Panel {
                name: "pairs per second".into(),
                logarithmic: false,
                label: figure::rate,
                series: vec![dots(case, COLOURS[at % COLOURS.len()], points)],
            });
        }
    }
    (!panels.is_empty()).then(|| Chart {
        title: "heights: the skip list with more and more levels".into(),
        name: "levels".into(),
        logarithmic: false,
        label: whole,
        panels,
    })
}

fn overlaps(report: &Report) -> Option<Chart> {
    let places = OVERLAPS.map(|percent| (f64::from(percent), overlap(percent)));
    over(report, &places, "overlap: how many pairs of requests overlap", "pairs that overlap", per_cent)
}

fn readers(report: &Report) -> Option<Chart> {
    let places = READERS.map(|percent| (f64::from(percent), shared(percent)));
    over(
        report,
        &places,
        &format!("{SHARED}: 31 % overlap, and some only read"),
        "requests that read",
        per_cent,
    )
}

/// Share of acquisitions over latency, of each lock.
fn cumulative(report: &Report, case: &str, of: impl Fn(Output) -> Histogram) -> Option<Chart> {
    let mut series = Vec::new();
    for (at, name) in report.variants(case).iter().enumerate() {
        let mut all = Histogram::new();
        for run in report.runs.iter().filter(|run| run.case == case && run.variant == **name) {
            let output = run.output.as_ref().and_then(|output| serde_json::from_str(output.get()).ok());
            output.into_iter().for_each(|output| all.merge(&of(output)));
        }
        if all.count() > 0 {
            series.push(line(name, COLOURS[at % COLOURS.len()], curve(&all)));
        }
    }
    (!series.is_empty()).then(|| Chart {
        title: format!("{case}: share of acquisitions that took at most so long"),
        name: "latency".into(),
        logarithmic: true,
        label: duration,
        panels: vec![Panel { name: "share".into(), logarithmic: false, label: percent, series }],
    })
}
