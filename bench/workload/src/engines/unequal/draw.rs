//! Pictures: how long operations took, by class of threads, and what each target costs and brings.
//!
//! As figures 9 and 10 of the paper: of each program the cumulative share of operations over their
//! latency, the reference and each target one above the other; and percentiles and throughput over
//! the targets, with the line on which a percentile is its target, and the other locks beside them.

use super::conclude::versions;
use super::version::{ALONE, ASL, GLIBC};
use crate::drawing::{
    CLASSES, Charts, LATENCY, chart, colour, diagonal, dot, dots, duration, rates, shares, times,
};
use crate::engine::Output;
use crate::engines::Subject;
use report::chart::Chart;
use report::{Histogram, Report};

/// The pictures of each program that was measured, under names for their files.
pub fn draw(report: &Report, subjects: &[&'static Subject]) -> Charts {
    let mut charts = Vec::new();
    for subject in subjects {
        charts.extend(cumulative(report, subject).map(|chart| (format!("{}-latency", subject.name), chart)));
        charts.extend(sweep(report, subject).map(|chart| (format!("{}-targets", subject.name), chart)));
    }
    charts
}

/// Share of operations over latency.
fn cumulative(report: &Report, subject: &Subject) -> Option<Chart> {
    let mut panels = Vec::new();
    for version in versions(report, subject.name) {
        let slo_ns = report.middle(subject.name, &version, "slo_ns");
        if version != GLIBC && version != ASL && !slo_ns.is_finite() {
            continue;
        }
        let Some(classes) = histograms(report, subject.name, &version) else { continue };
        let named = CLASSES.into_iter().zip(classes).map(|((name, colour), all)| (name, colour, all));
        panels.push(shares(&version, named, slo_ns));
    }
    let title = format!("{}: share of operations that took at most so long", subject.words);
    chart(&title, LATENCY, panels)
}

/// All rounds of a version together, by class.
fn histograms(report: &Report, case: &str, version: &str) -> Option<[Histogram; 3]> {
    let mut classes = [const { Vec::new() }; 3];
    for output in report.outputs::<Output>(case, version) {
        for (class, counts) in classes.iter_mut().zip([&output.big?, &output.little?, &output.all]) {
            class.push(Histogram::try_from(counts).ok()?);
        }
    }
    Some(classes.map(|all| all.into_iter().sum()))
}

/// Percentiles and throughput over the target; each lock without a target stands at its own tail.
fn sweep(report: &Report, subject: &Subject) -> Option<Chart> {
    let value = |version: &str, figure: &str| report.middle(subject.name, version, figure);
    let versions = versions(report, subject.name);
    let marked = |lock: &str| -> Vec<(f64, String)> {
        let start = format!("{lock}, ");
        let of_lock = versions.iter().filter(|version| version.starts_with(&start));
        let with_targets = of_lock.map(|version| (value(version, "slo_ns"), version.clone()));
        let mut marked: Vec<(f64, String)> = with_targets.filter(|(slo_ns, _)| slo_ns.is_finite()).collect();
        marked.sort_by(|a, b| a.0.total_cmp(&b.0));
        marked
    };
    let over = |marked: &[(f64, String)], figure: &str| {
        marked.iter().map(|(slo_ns, name)| (*slo_ns, value(name, figure))).collect()
    };
    let ours = marked(ASL);
    let mut tails = vec![diagonal(ours.iter().map(|(slo_ns, _)| *slo_ns))];
    for (name, colour) in CLASSES {
        let start = if name == "all" { String::new() } else { format!("{name}_") };
        tails.push(dots(name, colour, over(&ours, &format!("{start}p99_ns"))));
    }
    let mut throughput = vec![dots(ASL, CLASSES[0].1, over(&ours, "throughput_per_s"))];
    let locks = versions.iter().filter(|name| *name != ALONE && *name != ASL && !name.contains(", "));
    for (at, lock) in locks.enumerate() {
        let targets = marked(lock);
        if targets.is_empty() {
            let tail_ns = value(lock, "little_p99_ns");
            tails.push(dot(lock, colour(at + 3), (tail_ns, tail_ns)));
            throughput.push(dot(lock, colour(at + 3), (tail_ns, value(lock, "throughput_per_s"))));
        } else {
            tails.push(dots(lock, colour(at + 3), over(&targets, "little_p99_ns")));
            throughput.push(dots(lock, colour(at + 3), over(&targets, "throughput_per_s")));
        }
    }
    let axis = ("target (locks without one: at their little threads' own p99)", true, duration as _);
    let drawn = chart(subject.words, axis, vec![times("p99", tails), rates("throughput", throughput)]);
    drawn.filter(|_| !ours.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::conclude::tests::report;
    use super::*;

    #[test]
    fn a_sweep_has_a_point_a_target_and_the_reference() {
        let (report, subjects) = report([1.5; 3], 1.0);
        let charts = draw(&report, &subjects);
        // There are no outputs, so there is nothing to draw shares from.
        let names: Vec<&str> = charts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["leveldb-get-targets", "kyoto-cache-targets", "sqlite-scan-targets"]);
        let [tails, rates] = &charts[0].1.panels[..] else { panic!("two panels") };
        assert_eq!(tails.series.len(), 5);
        assert_eq!(rates.series[0].points.len(), 2);
        assert_eq!(rates.series[1].points, [(10_000.0, 1000.0)]);
        assert!(charts[0].1.svg().contains("y = x"));
    }
}
