//! What the pictures of all benchmarks are made of: lines and dots over what differs from case to
//! case, shares over latency, and what a target costs and brings.

use report::chart::{Chart, Label, Panel, Series};
use report::{Counts, Histogram, Report, figure};

/// Pictures under names for their files.
pub(crate) type Charts = Vec<(String, Chart)>;
/// The shared axis: what it shows, whether it is logarithmic, and how it is labelled.
pub(crate) type Axis<'a> = (&'a str, bool, Label);

/// The axis of latencies.
pub(crate) const LATENCY: Axis = ("latency", true, duration);
/// What is there to compare with, and no version.
pub(crate) const GREY: u32 = 0x88_88_88;
/// The classes of threads on unequal cores, and their colours.
pub(crate) const CLASSES: [(&str, u32); 3] =
    [("big", 0x1f_77_b4), ("little", 0xd6_27_28), ("all", 0x2c_a0_2c)];
/// Colours of versions.
const COLOURS: [u32; 18] = [
    0xd6_27_28, 0x1f_77_b4, 0x2c_a0_2c, 0xe6_7e_00, 0x94_67_bd, 0x8c_56_4b, 0xe3_77_c2, 0x17_be_cf,
    0xbc_bd_22, 0x33_33_99, 0x00_66_66, 0x99_00_33, 0x88_88_88, 0x66_99_00, 0xff_99_99, 0x00_00_00,
    0x66_33_cc, 0x00_99_ff,
];
/// A curve has at most about this number of points.
const POINTS: f64 = 250.0;

/// The colour of the version in this place.
pub(crate) fn colour(at: usize) -> u32 {
    COLOURS[at % COLOURS.len()]
}

/// A label: nanoseconds as a duration.
pub(crate) fn duration(ns: f64) -> String {
    figure::duration(ns.round() as u64)
}

/// A label: a share of 1 in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A label: percent.
pub(crate) fn per_cent(value: f64) -> String {
    format!("{value:.0} %")
}

/// A label: only whole numbers have one.
pub(crate) fn whole(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { String::new() }
}

/// Points, one joined to the next.
pub(crate) fn line(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.into(), colour, line: true, dots: false, rings: false, points }
}

/// The same, each point marked.
pub(crate) fn dots(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    Series { dots: true, ..line(name, colour, points) }
}

/// One dot.
pub(crate) fn dot(name: &str, colour: u32, point: (f64, f64)) -> Series {
    Series { line: false, ..dots(name, colour, vec![point]) }
}

/// A ring: what is known from elsewhere.
pub(crate) fn ring(name: &str, colour: u32, point: (f64, f64)) -> Series {
    Series { dots: false, rings: true, ..dot(name, colour, point) }
}

/// The line on which both axes show the same.
pub(crate) fn diagonal(values: impl Iterator<Item = f64>) -> Series {
    line("y = x", GREY, values.map(|value| (value, value)).collect())
}

/// A panel of rates.
pub(crate) fn rates(name: &str, series: Vec<Series>) -> Panel {
    Panel { name: name.into(), logarithmic: false, label: figure::rate, series }
}

/// A panel of times.
pub(crate) fn times(name: &str, series: Vec<Series>) -> Panel {
    Panel { name: name.into(), logarithmic: true, label: duration, series }
}

/// A picture of the panels in which there is something; none without one.
pub(crate) fn chart(title: &str, axis: Axis, mut panels: Vec<Panel>) -> Option<Chart> {
    panels.retain(|panel| panel.series.iter().any(|series| !series.points.is_empty()));
    let (name, logarithmic, label) = axis;
    (!panels.is_empty()).then(|| Chart { title: title.into(), name: name.into(), logarithmic, label, panels })
}

/// Those of some pictures that there are.
pub(crate) fn those<const N: usize>(charts: [(&str, Option<Chart>); N]) -> Charts {
    charts.into_iter().filter_map(|(name, chart)| Some((name.into(), chart?))).collect()
}

/// A panel for each of `NAME = FIGURE`, with `|` in between: the figures of rates, and of times.
pub(crate) fn panels(figures: &str, series: impl Fn(&str) -> Vec<Series>) -> Vec<Panel> {
    let named = figures.split('|').filter_map(|one| one.split_once('='));
    let panel = |(name, figure): (&str, &str)| match figure.trim() {
        figure if figure.ends_with("_ns") => times(name.trim(), series(figure)),
        figure => rates(name.trim(), series(figure)),
    };
    named.map(panel).collect()
}

/// A line for each name that has points.
pub(crate) fn lines(names: &[String], points: impl Fn(&str) -> Vec<(f64, f64)>) -> Vec<Series> {
    let finite = |name: &str| points(name).into_iter().filter(|(_, value)| value.is_finite()).collect();
    let all = names.iter().enumerate().map(|(at, name)| dots(name, colour(at), finite(name)));
    all.filter(|series| !series.points.is_empty()).collect()
}

/// A line for each version over what differs from case to case; only cases that were measured
/// count, and the versions of the first of them.
pub(crate) fn over(report: &Report, places: &[(f64, String)], figure: &str) -> Vec<Series> {
    let measured = report.cases();
    let places: Vec<_> = places.iter().filter(|(_, case)| measured.contains(case)).collect();
    let names = places.first().map_or(Vec::new(), |(_, case)| report.variants(case));
    lines(&names, |name| places.iter().map(|(x, case)| (*x, report.middle(case, name, figure))).collect())
}

/// A panel of shares over latency: a curve for each histogram that has values, and the target if
/// there is one.
pub(crate) fn shares<'a>(
    name: &str,
    histograms: impl IntoIterator<Item = (&'a str, u32, Histogram)>,
    target_ns: f64,
) -> Panel {
    let filled = histograms.into_iter().filter(|(.., histogram)| histogram.count() > 0);
    let mut series: Vec<Series> =
        filled.map(|(name, colour, histogram)| line(name, colour, curve(&histogram))).collect();
    if target_ns.is_finite() && !series.is_empty() {
        series.push(line("target", GREY, vec![(target_ns, 0.0), (target_ns, 1.0)]));
    }
    Panel { name: name.into(), logarithmic: false, label: percent, series }
}

/// The same of versions, in their colours.
pub(crate) fn version_shares(name: &str, names: &[String], of: impl Fn(&str) -> Histogram) -> Panel {
    shares(name, names.iter().enumerate().map(|(at, name)| (name.as_str(), colour(at), of(name))), f64::NAN)
}

/// A histogram as points, far enough apart to be told from each other.
pub(crate) fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let counts = Counts::from(histogram);
    let (mut points, mut below, mut drawn) = (Vec::new(), 0, f64::NEG_INFINITY);
    for (value_ns, count) in counts.counts {
        below += count;
        let share = below as f64 / counts.count as f64;
        if share - drawn >= 1.0 / POINTS || below == counts.count {
            points.push((value_ns as f64, share));
            drawn = share;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_to_one_at_the_largest_value() {
        let mut histogram = Histogram::new();
        for value in 1..=100_000 {
            histogram.record(value);
        }
        let points = curve(&histogram);
        assert!(points.len() as f64 <= POINTS + 1.0, "{} points", points.len());
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        let (value, share) = points[points.len() - 1];
        assert_eq!(share, 1.0);
        assert!((value - 100_000.0).abs() <= 100.0, "{value}");
    }
}
