//! Ratios with their intervals, one below the other, over one logarithmic axis with a line at 1.
//!
//! A name stands above its ratio, so that it has the whole width.

use super::axis::Axis;
use super::svg::{Anchor, GRID, INK, MUTED, Marks, Shape};
use super::{Frame, LETTER, cut};
use crate::figure::three_digits;

/// Left of the ratios.
const LEFT: f64 = 16.0;
/// For the ratio in words, to the right.
const WORDS: f64 = 64.0;
/// From row to row.
const ROW: f64 = 38.0;
/// Above the first row, and below the last one for the axis.
const TOP: f64 = 8.0;
const BELOW: f64 = 44.0;
/// An axis shows at least 1/this to this.
const LEAST: f64 = 2.05;

/// A ratio.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// What it is of
    pub(crate) name: String,
    /// Above 0
    pub(crate) ratio: f64,
    /// Its interval, if it has one
    pub(crate) interval: Option<(f64, f64)>,
    /// By what it means: good, bad, or neither
    pub(crate) colour: u32,
}

fn label(ratio: f64) -> String {
    format!("{}×", three_digits(ratio).trim_end_matches('0').trim_end_matches('.'))
}

/// The shapes, and the picture's size. `name` is what the axis shows.
pub(crate) fn drawn(rows: &[Row], name: &str, frame: Frame) -> (Vec<Shape>, (f64, f64)) {
    let (left, right) = (LEFT, frame.width - WORDS);
    let bottom = TOP + ROW * rows.len() as f64;
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
        [row.ratio, low, high]
    });
    let axis = Axis::over(ends.chain([1.0 / LEAST, LEAST]), true);
    let x = |value| axis.place(value).map(|place| left + place * (right - left));
    let mut shapes = Vec::new();
    for tick in axis.ticks_across(right - left, label) {
        let Some(x) = x(tick) else { continue };
        shapes.push(Shape::line((x, TOP), (x, bottom), GRID));
        // The label of a tick at the left end stays in the picture.
        let words = label(tick);
        let middle = x.max(words.chars().count() as f64 * LETTER / 2.0);
        shapes.push(Shape::words((middle, bottom + 16.0), Anchor::Middle, &words, INK));
    }
    if let Some(x) = x(1.0) {
        shapes.push(Shape::Line { from: (x, TOP), to: (x, bottom), colour: MUTED, width: 1.5 });
    }
    shapes.push(Shape::line((left, bottom), (right, bottom), INK));
    let middle = f64::midpoint(left, right);
    shapes.push(Shape::words((middle, bottom + 36.0), Anchor::Middle, name, INK));
    for (at, row) in rows.iter().enumerate() {
        let y = TOP + ROW * (at as f64 + 1.0) - 10.0;
        let name = cut(&row.name, (frame.width / LETTER) as usize);
        shapes.push(Shape::words((0.0, y - 12.0), Anchor::Start, &name, INK));
        let Some(centre) = x(row.ratio) else { continue };
        if let Some((Some(low), Some(high))) = row.interval.map(|(low, high)| (x(low), x(high))) {
            let line = |from, to, width| Shape::Line { from, to, colour: row.colour, width };
            shapes.push(line((low, y), (high, y), 2.0));
            shapes.push(line((low, y - 4.0), (low, y + 4.0), 2.0));
            shapes.push(line((high, y - 4.0), (high, y + 4.0), 2.0));
        }
        let mut tip = label(row.ratio);
        if let Some((low, high)) = row.interval {
            tip += &format!(", 95 % interval {} to {}", three_digits(low), three_digits(high));
        }
        shapes.push(Shape::Marks(Marks {
            name: row.name.clone(),
            at: vec![(centre, y)],
            tips: vec![tip],
            colour: row.colour,
            line: false,
            dots: true,
            rings: false,
        }));
        let words = (frame.width - WORDS + 6.0, y + 4.0);
        shapes.push(Shape::words(words, Anchor::Start, &label(row.ratio), INK));
    }
    (shapes, (frame.width, bottom + BELOW))
}

#[cfg(test)]
mod tests {
    use super::super::{NARROW, WIDE};
    use super::*;

    #[test]
    fn a_larger_ratio_is_further_right_and_each_row_lower() {
        let row =
            |ratio| Row { name: "n".into(), ratio, interval: Some((ratio / 2.0, ratio * 2.0)), colour: INK };
        for frame in [WIDE, NARROW] {
            let (shapes, (width, height)) = drawn(&[row(0.5), row(1.0), row(30.0)], "x", frame);
            let at: Vec<(f64, f64)> = shapes
                .iter()
                .filter_map(|shape| match shape {
                    Shape::Marks(marks) => Some(marks.at[0]),
                    _ => None,
                })
                .collect();
            assert!(at.is_sorted_by(|one, other| one.0 < other.0 && one.1 < other.1), "{at:?}");
            assert!(at.iter().all(|(x, y)| *x < width && *y < height));
        }
    }
}
