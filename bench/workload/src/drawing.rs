//! What the pictures of all benchmarks are drawn with: lines and dots, a histogram as a curve, and
//! how their axes are labelled.

use report::chart::Series;
use report::{Counts, Histogram, figure};

/// What is there to compare with, and no version.
pub(crate) const GREY: u32 = 0x88_88_88;
/// A curve has at most about this number of points.
const POINTS: f64 = 250.0;

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
    Series { name: name.into(), colour, line: true, dots: false, points }
}

/// The same, each point marked.
pub(crate) fn dots(name: &str, colour: u32, points: Vec<(f64, f64)>) -> Series {
    Series { dots: true, ..line(name, colour, points) }
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
