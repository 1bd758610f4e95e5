//! Latencies over time with the boost's window, and whole: what share of the transactions took at
//! most a given time.

use super::cases::{TIMELINE, allocation, boosted, idle, writers};
use super::snapshot::{IDLE, WRITERS};
use crate::boosted::{lines, window};
use crate::drawing::{
    Charts, GREY, LATENCY, chart, colour, dots, line, over, panels, rates, those, times, version_shares,
    whole,
};
use crate::engine::Output;
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, Summary};

/// The pictures of the parts that were measured, under names for their files.
pub fn draw(report: &Report) -> Charts {
    let mut charts = those([("timeline", over_time(report))]);
    let cases = report.cases();
    let threads = (1..=4096).filter(|&threads| cases.contains(&allocation(threads)));
    charts.extend(threads.filter_map(|threads| {
        Some((format!("allocation-{threads}"), cumulative(report, &allocation(threads))?))
    }));
    let beside = |count| if count == 0 { idle(0) } else { writers(count) };
    charts.extend(those([
        ("read-only-idle", reads(report, &IDLE, &idle, "sessions without a transaction")),
        ("read-only-writers", reads(report, &WRITERS, &beside, "transactions that have written")),
    ]));
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
        let all = lines.iter().enumerate().map(|(at, (variant, line))| {
            let points = line.iter().enumerate().filter(|(_, summary)| summary.count > 0);
            let points = points.map(|(second, summary)| (second as f64 + 0.5, of(summary)));
            dots(variant, colour(at), points.collect())
        });
        let mut series: Vec<Series> = all.collect();
        let values = || series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        for (name, edge) in [("the boost begins", window.start), ("and ends", window.end)] {
            series.push(line(name, GREY, vec![(edge as f64, low), (edge as f64, high)]));
        }
        if is_time { times(name, series) } else { rates(name, series) }
    });
    let chart = chart(TIMELINE, ("time", false, seconds), panels.collect());
    chart.filter(|_| !lines.is_empty())
}

/// All rounds of a version together.
fn merged(report: &Report, case: &str, name: &str) -> Histogram {
    let all = report.outputs(case, name).filter_map(|output: Output| Histogram::try_from(&output.all).ok());
    all.sum()
}

/// The share of transactions that took at most a given time, without the boost and with it.
fn cumulative(report: &Report, case: &str) -> Option<Chart> {
    let mut names = report.variants(case);
    let all = names.clone();
    names.retain(|name| all.contains(&boosted(name)));
    let panels = vec![
        version_shares("no thread boosted", &names, |name| merged(report, case, name)),
        version_shares("4 threads at -20", &names, |name| merged(report, case, &boosted(name))),
    ];
    chart(&format!("{case}: share that took at most so long"), LATENCY, panels)
}

/// What a transaction that only reads costs over how many others there are.
fn reads(report: &Report, counts: &[usize], case: &dyn Fn(usize) -> String, name: &str) -> Option<Chart> {
    let places: Vec<_> = counts.iter().map(|&count| (count as f64, case(count))).collect();
    let figures = "begin and commit = empty_ns | with a get = get_ns";
    let panels = panels(figures, |figure| over(report, &places, figure)).into_iter();
    let linear = panels.map(|panel| Panel { logarithmic: false, ..panel });
    chart("a transaction that only reads", (name, false, whole), linear.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Machine;

    #[test]
    fn cases_that_were_measured_are_drawn_and_no_others() {
        let mut report = Report::new("txn", Machine::default(), 0);
        assert!(draw(&report).is_empty());
        for count in IDLE {
            for (variant, value) in [("help", 40.0), ("wait", 41.0)] {
                report.add(&idle(count), variant, 0, &[("empty_ns", value), ("get_ns", 90.0)]);
            }
        }
        let charts = draw(&report);
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read-only-idle", "read-only-writers"]);
        assert_eq!(charts[0].1.panels[0].series.len(), 2, "one of each protocol");
        assert_eq!(charts[0].1.panels[0].series[0].points.len(), IDLE.len());
    }
}
