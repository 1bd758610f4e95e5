//! Pictures: how long operations took, by class of threads, and what each target costs and brings.
//!
//! As figures 9 and 10 of the paper: of each program the cumulative share of operations over their
//! latency, the reference and each target one above the other; and percentiles and throughput over
//! the targets, with the line on which a percentile is its target.

use super::conclude::versions;
use super::{ASL, GLIBC};
use crate::drawing::{GREY, curve, duration, line, percent};
use crate::engine::Output;
use crate::engines::Subject;
use crate::verdict::middle;
use report::chart::{Chart, Panel, Series};
use report::{Histogram, Report, figure};

/// The classes of threads, and their colours.
pub(crate) const CLASSES: [(&str, u32, &str); 3] =
    [("big", 0x1f_77_b4, "big_"), ("little", 0xd6_27_28, "little_"), ("all", 0x2c_a0_2c, "")];
const ORANGE: u32 = 0xe6_7e_00;

/// The pictures of each program that was measured, under names for their files.
pub fn draw(report: &Report, subjects: &[&'static Subject]) -> Vec<(String, Chart)> {
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
        let slo_ns = middle(report, subject.name, &version, "slo_ns");
        if version != GLIBC && version != ASL && !slo_ns.is_finite() {
            continue;
        }
        let Some(classes) = histograms(report, subject.name, &version) else { continue };
        let mut series: Vec<Series> = CLASSES
            .iter()
            .zip(&classes)
            .filter(|(_, histogram)| histogram.count() > 0)
            .map(|((name, colour, _), histogram)| line(name, *colour, curve(histogram)))
            .collect();
        if slo_ns.is_finite() {
            series.push(line("target", GREY, vec![(slo_ns, 0.0), (slo_ns, 1.0)]));
        }
        panels.push(Panel { name: version, logarithmic: false, label: percent, series });
    }
    let title = format!("{}: share of operations that took at most so long", subject.words);
    (!panels.is_empty()).then(|| Chart {
        title,
        name: "latency".into(),
        logarithmic: true,
        label: duration,
        panels,
    })
}

/// All rounds of a version together, by class.
fn histograms(report: &Report, case: &str, version: &str) -> Option<[Histogram; 3]> {
    let mut classes = [Histogram::new(), Histogram::new(), Histogram::new()];
    for run in report.runs.iter().filter(|run| run.case == case && run.variant == version) {
        let output = Output::parse(run.output.as_ref()?.get()).ok()?;
        for (histogram, counts) in classes.iter_mut().zip([&output.big?, &output.little?, &output.all]) {
            histogram.merge(&Histogram::try_from(counts).ok()?);
        }
    }
    Some(classes)
}

/// Percentiles and throughput over the target.
fn sweep(report: &Report, subject: &Subject) -> Option<Chart> {
    let case = subject.name;
    let mut marked: Vec<(f64, String)> = versions(report, case)
        .into_iter()
        .map(|version| (middle(report, case, &version, "slo_ns"), version))
        .filter(|(slo_ns, _)| slo_ns.is_finite())
        .collect();
    if marked.is_empty() {
        return None;
    }
    marked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let over = |figure: &str| -> Vec<(f64, f64)> {
        marked.iter().map(|(slo_ns, version)| (*slo_ns, middle(report, case, version, figure))).collect()
    };
    let mut tails = vec![line("y = x", GREY, marked.iter().map(|(slo_ns, _)| (*slo_ns, *slo_ns)).collect())];
    for (name, colour, prefix) in CLASSES {
        let points = over(&format!("{prefix}p99_ns"));
        tails.push(Series { name: name.into(), colour, line: true, dots: true, points });
    }
    let throughput = over("throughput_per_s");
    let mut rates =
        vec![Series { name: ASL.into(), colour: CLASSES[0].1, line: true, dots: true, points: throughput }];
    let reference_ns = middle(report, case, GLIBC, "little_p99_ns");
    for (panel, figure) in [(&mut tails, "little_p99_ns"), (&mut rates, "throughput_per_s")] {
        let points = vec![(reference_ns, middle(report, case, GLIBC, figure))];
        panel.push(Series { name: GLIBC.into(), colour: ORANGE, line: false, dots: true, points });
    }
    Some(Chart {
        title: subject.words.into(),
        name: "target (glibc: at its little threads' own p99)".into(),
        logarithmic: true,
        label: duration,
        panels: vec![
            Panel { name: "p99".into(), logarithmic: true, label: duration, series: tails },
            Panel { name: "throughput".into(), logarithmic: false, label: figure::rate, series: rates },
        ],
    })
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
