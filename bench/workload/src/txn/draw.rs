//! Latencies over time with the boost's window, and whole: what share of the transactions took at
//! most a given time.

use super::cases::{TIMELINE, allocation, boosted, idle, writers};
use super::snapshot::{IDLE, WRITERS};
use crate::boosted::{lines, window};
use crate::drawing::{GREY, curve, dots, duration, line, percent, whole};
use crate::engine::Output;
use crate::verdict::middle;
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, Summary, figure};

/// Colours of versions.
const COLOURS: [u32; 8] =
    [0xd6_27_28, 0x1f_77_b4, 0x2c_a0_2c, 0xe6_7e_00, 0x94_67_bd, 0x8c_56_4b, 0xe3_77_c2, 0x17_be_cf];

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Vec<(String, Chart)> {
    let mut charts: Vec<(String, Chart)> = Vec::new();
    let mut add = |name: String, chart: Option<Chart>| charts.extend(chart.map(|chart| (name, chart)));
    add("timeline".into(), over_time(report));
    for threads in 1..=4096 {
        let case = allocation(threads);
        if report.runs.iter().any(|run| run.case == case) {
            add(format!("allocation-{threads}"), cumulative(report, &case));
        }
    }
    add("read-only-idle".into(), reads(report, &IDLE, &idle, "sessions without a transaction"));
    add(
        "read-only-writers".into(),
        reads(
            report,
            &WRITERS,
            &|count| if count == 0 { idle(0) } else { writers(count) },
            "transactions that have written",
        ),
    );
    charts
}

fn seconds(second: f64) -> String {
    if second.fract() == 0.0 { format!("{second} s") } else { String::new() }
}

/// Percentiles by the second; two lines stand where the boost begins and ends.
fn over_time(report: &Report) -> Option<Chart> {
    let lines = lines(report, TIMELINE);
    let window = window(report, &lines);
    type Of = fn(&Summary) -> f64;
    let figures: [(&str, bool, Of); 5] = [
        ("transactions a second", false, |s| s.count as f64),
        ("p50", true, |s| s.p50_ns as f64),
        ("p99", true, |s| s.p99_ns as f64),
        ("p99.9", true, |s| s.p999_ns as f64),
        ("max", true, |s| s.max_ns as f64),
    ];
    let panels = figures.into_iter().map(|(name, is_time, of)| {
        let mut series: Vec<Series> = (lines.iter().enumerate())
            .map(|(at, (variant, line))| {
                let points = line.iter().enumerate().filter(|(_, summary)| summary.count > 0);
                dots(
                    variant,
                    COLOURS[at % COLOURS.len()],
                    points.map(|(second, summary)| (second as f64 + 0.5, of(summary))).collect(),
                )
            })
            .collect();
        let values = || series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        for (at, edge) in [window.start, window.end].into_iter().enumerate() {
            let name = ["the boost begins", "and ends"][at];
            series.push(line(name, GREY, vec![(edge as f64, low), (edge as f64, high)]));
        }
        let label = if is_time { duration } else { figure::rate };
        Panel { name: name.into(), logarithmic: is_time, label, series }
    });
    (!lines.is_empty()).then(|| Chart {
        title: TIMELINE.into(),
        name: "time".into(),
        logarithmic: false,
        label: seconds,
        panels: panels.collect(),
    })
}

/// All rounds of a version together.
fn merged(report: &Report, case: &str, name: &str) -> Histogram {
    let mut all = Histogram::new();
    let runs = report.runs.iter().filter(|run| run.case == case && run.variant == name);
    for output in runs.filter_map(|run| Output::parse(run.output.as_ref()?.get()).ok()) {
        if let Ok(one) = Histogram::try_from(&output.all) {
            all.merge(&one);
        }
    }
    all
}

/// The share of transactions that took at most a given time, without the boost and with it.
fn cumulative(report: &Report, case: &str) -> Option<Chart> {
    let names = report.variants(case);
    let plain: Vec<&String> = names.iter().filter(|name| names.contains(&boosted(name))).collect();
    let panel = |title: &str, of: &dyn Fn(&str) -> String| {
        let series = plain.iter().enumerate().filter_map(|(at, name)| {
            let all = merged(report, case, &of(name));
            (all.count() > 0).then(|| line(name, COLOURS[at % COLOURS.len()], curve(&all)))
        });
        Panel { name: title.into(), logarithmic: false, label: percent, series: series.collect() }
    };
    let mut panels =
        vec![panel("no thread boosted", &str::to_owned), panel("4 threads at -20", &|name| boosted(name))];
    panels.retain(|panel| !panel.series.is_empty());
    (!panels.is_empty()).then(|| Chart {
        title: format!("{case}: share that took at most so long"),
        name: "latency".into(),
        logarithmic: true,
        label: duration,
        panels,
    })
}

/// What a transaction that only reads costs over how many others there are.
fn reads(report: &Report, counts: &[usize], case: &dyn Fn(usize) -> String, name: &str) -> Option<Chart> {
    let versions = report.variants(&case(0));
    let panels = [("begin and commit", "empty_ns"), ("with a get", "get_ns")].map(|(title, measure)| {
        let series = versions.iter().enumerate().map(|(at, version)| {
            let of =
                counts.iter().map(|&count| (count as f64, middle(report, &case(count), version, measure)));
            dots(version, COLOURS[at % COLOURS.len()], of.filter(|(_, value)| value.is_finite()).collect())
        });
        Panel { name: title.into(), logarithmic: false, label: duration, series: series.collect() }
    });
    (!versions.is_empty()).then(|| Chart {
        title: "a transaction that only reads".into(),
        name: name.into(),
        logarithmic: false,
        label: whole,
        panels: panels.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Machine, Run};

    #[test]
    fn what_was_measured_is_drawn_and_nothing_else() {
        let mut report = Report::new("txn", Machine::default(), 0);
        assert!(draw(&report).is_empty());
        for count in IDLE {
            for (variant, value) in [("help", 40.0), ("wait", 41.0)] {
                let values = [("empty_ns".to_owned(), value), ("get_ns".to_owned(), 90.0)].into();
                report.runs.push(Run {
                    case: idle(count),
                    variant: variant.into(),
                    round: 0,
                    values,
                    output: None,
                });
            }
        }
        let charts = draw(&report);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read-only-idle", "read-only-writers"]);
        assert_eq!(charts[0].1.panels[0].series.len(), 2, "one of each protocol");
        assert_eq!(charts[0].1.panels[0].series[0].points.len(), IDLE.len());
    }
}
