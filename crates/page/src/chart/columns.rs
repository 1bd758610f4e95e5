//! A histogram: a column for each bucket, over a logarithmic axis of values.
//!
//! The heights are logarithmic, too, so that the one slow wait among a million can be seen; a
//! column begins below 1. A histogram of many buckets is put together into fewer columns, which
//! are equally wide.

use super::axis::Axis;
use super::svg::{Anchor, GRID, INK, MUTED, PALETTE, Shape};
use super::{Frame, Label};

/// The most columns.
const COLUMNS: usize = 48;
const ABOVE: f64 = 34.0;
const BELOW: f64 = 46.0;
/// Where a column begins: below the first count.
const FLOOR: f64 = 0.7;

/// A histogram.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// What the axis shows
    pub(crate) name: String,
    /// What is counted
    pub(crate) unit: String,
    /// `(the largest value of the bucket, count)`, sorted by value
    pub(crate) buckets: Vec<(f64, u64)>,
    /// A line in front, with its name
    pub(crate) target: Option<(f64, String)>,
    /// How values are written
    pub(crate) label: Label,
}

/// A column: from a value to a value, and how many.
type Column = (f64, f64, u64);

impl Columns {
    /// Columns of equal width.
    fn together(&self) -> Vec<Column> {
        let buckets =
            self.buckets.iter().filter(|(value, count)| *value > 0.0 && value.is_finite() && *count > 0);
        let buckets: Vec<(f64, u64)> = buckets.copied().collect();
        let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return vec![] };
        if buckets.len() <= COLUMNS {
            // A bucket begins where the one before ends, or at half of its own end.
            let before = [0.0].into_iter().chain(buckets.iter().map(|bucket| bucket.0));
            let column =
                |(before, (value, count)): (f64, &(f64, u64))| (before.max(value / 2.0), *value, *count);
            return before.zip(&buckets).map(column).collect();
        }
        let (low, high) = (first.0.ln() - 0.35, last.0.ln());
        let width = ((high - low) / COLUMNS as f64).max(0.35);
        let mut columns: Vec<Column> = Vec::new();
        for (value, count) in buckets {
            let at = ((value.ln() - low) / width).ceil().max(1.0);
            let (from, to) = ((low + (at - 1.0) * width).exp(), (low + at * width).exp());
            match columns.last_mut() {
                Some(last) if last.1 >= to * 0.999 => last.2 = last.2.saturating_add(count),
                _ => columns.push((from, to, count)),
            }
        }
        columns
    }

    /// The shapes, and the picture's size.
    pub(crate) fn drawn(&self, frame: Frame) -> (Vec<Shape>, (f64, f64)) {
        let columns = self.together();
        let target = self.target.as_ref().map(|(value, _)| *value);
        let values = columns.iter().flat_map(|(from, to, _)| [*from, *to]).chain(target);
        let across = Axis::over(values, true);
        let most = columns.iter().map(|column| column.2).max().unwrap_or(1);
        let up = Axis { low: FLOOR, high: most as f64 * 1.3, logarithmic: true };
        let (left, right, top) = (frame.left, frame.width - frame.right, ABOVE);
        let bottom = top + frame.panel;
        let x = |value: f64| left + across.place(value).unwrap_or(0.0) * (right - left);
        let y = |value: f64| bottom - up.place(value).unwrap_or(0.0) * (bottom - top);
        let count = |value: f64| format!("{value}");
        let mut shapes = vec![Shape::words((left, 14.0), Anchor::Start, &self.unit, INK)];
        for tick in up.ticks().into_iter().filter(|tick| *tick >= 1.0) {
            shapes.push(Shape::line((left, y(tick)), (right, y(tick)), GRID));
            shapes.push(Shape::words((left - 8.0, y(tick) + 4.0), Anchor::End, &count(tick), INK));
        }
        let all: u64 = columns.iter().fold(0, |all, column| all.saturating_add(column.2));
        for (from, to, count) in &columns {
            let height = (bottom - y(*count as f64)).max(1.0);
            let share = 100.0 * *count as f64 / all.max(1) as f64;
            let (low, high) = ((self.label)(*from), (self.label)(*to));
            shapes.push(Shape::Box {
                at: (x(*from), bottom - height),
                size: ((x(*to) - x(*from) - 1.0).max(1.0), height),
                colour: PALETTE[0],
                tip: format!("{low} to {high}: {count} ({share:.3} %)"),
            });
        }
        if let Some((value, name)) = &self.target {
            let x = x(*value);
            shapes.push(Shape::Line {
                from: (x, top - 4.0),
                to: (x, bottom),
                colour: PALETTE[1],
                width: 2.0,
            });
            let is_right = x > f64::midpoint(left, right);
            let anchor = if is_right { Anchor::End } else { Anchor::Start };
            shapes.push(Shape::words((x, top - 8.0), anchor, name, INK));
        }
        shapes.push(Shape::line((left, bottom), (right, bottom), MUTED));
        for tick in across.ticks_across(right - left, self.label) {
            shapes.push(Shape::words((x(tick), bottom + 18.0), Anchor::Middle, &(self.label)(tick), INK));
        }
        let middle = (f64::midpoint(left, right), bottom + 38.0);
        shapes.push(Shape::words(middle, Anchor::Middle, &self.name, INK));
        (shapes, (frame.width, bottom + BELOW))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_buckets_are_put_together_and_nothing_is_lost() {
        let buckets: Vec<(f64, u64)> = (1..5000).map(|value| (f64::from(value), 2)).collect();
        let columns =
            Columns { name: "x".into(), unit: "n".into(), buckets, target: None, label: |v| v.to_string() };
        let together = columns.together();
        assert!(together.len() <= COLUMNS + 1, "{}", together.len());
        assert_eq!(together.iter().map(|column| column.2).sum::<u64>(), 4999 * 2);
        assert!(together.windows(2).all(|two| two[0].1 <= two[1].0 * 1.001));
    }
}
