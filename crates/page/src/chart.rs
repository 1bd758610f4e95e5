//! Pictures, as SVG: panels above each other over one axis; and others in the files below.
//!
//! `Chart::shapes` makes a picture of lines, marks, boxes and words in the units of an SVG, for a
//! `Frame`, and `svg` writes them: into a file of its own, or into a page, wide and narrow.
//!
//! | file | picture |
//! | --- | --- |
//! | this one | panels of series over one axis |
//! | [`heat`] | ratios of a grid as colours |
//! | `forest` | ratios with their intervals, one below the other |
//! | `columns` | a histogram |
//! | `timeline` | what threads did, thread by thread |

mod axis;
pub(crate) mod columns;
pub(crate) mod forest;
pub mod heat;
pub(crate) mod svg;
pub(crate) mod timeline;

use axis::Axis;
use svg::{Anchor, GRID, INK, Marks, Shape};

/// The room that a picture has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Of the whole picture
    pub(crate) width: f64,
    /// Left of the panels, for the labels of their axes
    pub(crate) left: f64,
    /// Right of them, for half a label
    pub(crate) right: f64,
    /// Of one panel, between its axes
    pub(crate) panel: f64,
    /// Above them all, for the title
    pub(crate) title: f64,
}

/// The frame of a picture in a file.
const FILE: Frame = Frame { width: 760.0, left: 90.0, right: 40.0, panel: 240.0, title: 24.0 };
/// The frame of a picture on a page, where the title is beside the picture.
pub(crate) const WIDE: Frame = Frame { width: 620.0, left: 72.0, right: 34.0, panel: 220.0, title: 0.0 };
/// The frame of a picture over the whole width of a page.
pub(crate) const BROAD: Frame = Frame { width: 1100.0, ..WIDE };
/// The frame of a picture on a page on a telephone.
pub(crate) const NARROW: Frame = Frame { width: 320.0, left: 60.0, right: 26.0, panel: 190.0, title: 0.0 };
/// The room above a panel, for its name and a row of its legend.
const ABOVE: f64 = 46.0;
/// A further row of a legend.
const ROW: f64 = 16.0;
/// Below the last one, for the labels of the axis they share.
const BELOW: f64 = 50.0;
/// About the width of a letter.
const LETTER: f64 = 7.2;

/// How a value is written beside an axis.
pub type Label = fn(f64) -> String;

/// Points of one kind.
#[derive(Clone, Debug)]
pub struct Series {
    /// What they are
    pub name: String,
    /// As 0xRRGGBB
    pub colour: u32,
    /// Connected by lines
    pub line: bool,
    /// Marked by dots
    pub dots: bool,
    /// Marked by rings: what was not measured, but is known from elsewhere
    pub rings: bool,
    /// Where they are; those without a place on their axes are left out
    pub points: Vec<(f64, f64)>,
}

/// Some series over the shared axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What its axis shows, with its unit
    pub name: String,
    /// Its axis is logarithmic; otherwise it begins at 0
    pub logarithmic: bool,
    /// How its axis is labelled
    pub label: Label,
    /// What it shows
    pub series: Vec<Series>,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The title above the picture
    pub title: String,
    /// What the shared axis shows
    pub name: String,
    /// The shared axis is logarithmic; otherwise it begins at 0
    pub logarithmic: bool,
    /// How the shared axis is labelled
    pub label: Label,
    /// From top to bottom
    pub panels: Vec<Panel>,
}

impl Chart {
    /// The height of the chart, in the units of its SVG.
    fn height(&self, frame: Frame) -> f64 {
        frame.title + self.panels.iter().map(|panel| panel.above(frame) + frame.panel).sum::<f64>() + BELOW
    }

    /// The chart as the text of an SVG file.
    pub fn svg(&self) -> String {
        svg::write(&self.shapes(FILE), FILE.width, self.height(FILE))
    }

    /// For a page: the shapes in this frame, and the picture's size.
    pub(crate) fn drawn(&self, frame: Frame) -> (Vec<Shape>, (f64, f64)) {
        (self.shapes(frame), (frame.width, self.height(frame)))
    }

    fn shapes(&self, frame: Frame) -> Vec<Shape> {
        let xs = self.panels.iter().flat_map(|panel| &panel.series).flat_map(|s| &s.points).map(|p| p.0);
        let across = Axis::over(xs, self.logarithmic);
        let mut shapes = Vec::new();
        if frame.title > 0.0 {
            let middle = (frame.width / 2.0, frame.title - 4.0);
            shapes.push(Shape::words(middle, Anchor::Middle, &self.title, INK));
        }
        let (left, right) = (frame.left, frame.width - frame.right);
        let ticks = across.ticks_across(right - left, self.label);
        let mut bottom = frame.title;
        for panel in &self.panels {
            let top = bottom + panel.above(frame);
            bottom = top + frame.panel;
            let across = Across { axis: across, ticks: &ticks, label: self.label };
            panel.draw(frame, &across, (left, top), (right, bottom), &mut shapes);
        }
        for tick in ticks {
            let Some(place) = across.place(tick) else { continue };
            let x = left + place * (right - left);
            shapes.push(Shape::words((x, bottom + 18.0), Anchor::Middle, &(self.label)(tick), INK));
        }
        let name = (f64::midpoint(left, right), bottom + 40.0);
        shapes.push(Shape::words(name, Anchor::Middle, &self.name, INK));
        shapes
    }
}

/// The axis that panels share.
struct Across<'a> {
    axis: Axis,
    ticks: &'a [f64],
    label: Label,
}

/// A name that is not longer than there is room for: both of its ends are kept.
pub(crate) fn cut(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.into();
    }
    let (count, letters) = (name.chars().count(), letters.saturating_sub(1));
    let end = letters / 3;
    name.chars().take(letters - end).chain(['…']).chain(name.chars().skip(count - end)).collect()
}

impl Panel {
    /// The names of the series that have something to show, as the legend has them.
    fn names(&self, frame: Frame) -> impl Iterator<Item = (&Series, String)> {
        let letters = ((frame.width - frame.left - 27.0) / LETTER) as usize;
        self.series.iter().map(move |series| (series, cut(&series.name, letters)))
    }

    /// Where each series' name stands, `(row, x)` from the left of the legend.
    fn legend(&self, frame: Frame) -> Vec<(usize, f64)> {
        let (mut row, mut x) = (0, 0.0);
        let place = |(_, name): (&Series, String)| {
            let width = 42.0 + LETTER * name.chars().count() as f64;
            if x > 0.0 && x + width > frame.width - frame.left {
                (row, x) = (row + 1, 0.0);
            }
            let place = (row, x);
            x += width;
            place
        };
        self.names(frame).map(place).collect()
    }

    /// The room above the panel, for its name and legend.
    fn above(&self, frame: Frame) -> f64 {
        ABOVE + ROW * self.legend(frame).last().map_or(0, |(row, _)| *row) as f64
    }

    fn draw(
        &self,
        frame: Frame,
        across: &Across<'_>,
        (left, top): (f64, f64),
        (right, bottom): (f64, f64),
        shapes: &mut Vec<Shape>,
    ) {
        let up = Axis::over(self.series.iter().flat_map(|s| &s.points).map(|p| p.1), self.logarithmic);
        let x = |value| across.axis.place(value).map(|place| left + place * (right - left));
        let y = |value| up.place(value).map(|place| bottom - place * (bottom - top));
        for x in across.ticks.iter().copied().filter_map(x) {
            shapes.push(Shape::line((x, top), (x, bottom), GRID));
        }
        for tick in up.ticks() {
            let Some(y) = y(tick) else { continue };
            shapes.push(Shape::line((left, y), (right, y), GRID));
            shapes.push(Shape::words((left - 8.0, y + 4.0), Anchor::End, &(self.label)(tick), INK));
        }
        shapes.push(Shape::line((left, top), (left, bottom), INK));
        shapes.push(Shape::line((left, bottom), (right, bottom), INK));
        shapes.push(Shape::words((left, top - self.above(frame) + 22.0), Anchor::Start, &self.name, INK));
        let legend = self.legend(frame);
        let rows = legend.last().map_or(0, |(row, _)| *row);
        for ((series, name), (row, x_legend)) in self.names(frame).zip(legend) {
            let Series { colour, line, dots, rings, .. } = *series;
            let places = series.points.iter().filter_map(|p| Some(((x(p.0)?, y(p.1)?), *p)));
            let (at, points): (Vec<_>, Vec<_>) = places.unzip();
            if at.is_empty() {
                continue;
            }
            let tip = |(x, y): (f64, f64)| format!("{}: {}", (across.label)(x), (self.label)(y));
            let tips = points.into_iter().map(tip).collect();
            shapes.push(Shape::Marks(Marks {
                name: series.name.clone(),
                at,
                tips,
                colour,
                line,
                dots,
                rings,
            }));
            let (left, y) = (left + x_legend, top - 12.0 - ROW * (rows - row) as f64);
            let at = if line { vec![(left, y), (left + 18.0, y)] } else { vec![(left + 9.0, y)] };
            shapes.push(Shape::Marks(Marks {
                name: String::new(),
                at,
                tips: vec![],
                colour,
                line,
                dots,
                rings,
            }));
            shapes.push(Shape::words((left + 27.0, y + 4.0), Anchor::Start, &name, INK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let label: Label = |v| format!("{v}");
        let (line, dots, rings) = (true, true, false);
        let series = Series { name: "a < b".into(), colour: 0xff_00_00, line, dots, rings, points };
        let panel = Panel { name: "up".into(), logarithmic: false, label, series: vec![series] };
        Chart { title: "T".into(), name: "across".into(), logarithmic: true, label, panels: vec![panel] }
    }

    /// The places of the first series.
    fn places(shapes: &[Shape]) -> Vec<(f64, f64)> {
        let marks = shapes.iter().find_map(|shape| match shape {
            Shape::Marks(marks) if !marks.tips.is_empty() => Some(marks.at.clone()),
            _ => None,
        });
        marks.unwrap()
    }

    #[test]
    fn larger_values_stand_higher_and_further_right() {
        let shapes = chart(vec![(1.0, 1.0), (10.0, 2.0)]).shapes(FILE);
        let at = places(&shapes);
        assert!(at[0].0 < at[1].0 && at[0].1 > at[1].1, "{at:?}");
    }

    #[test]
    fn a_linear_axis_begins_at_nothing_and_has_equal_steps() {
        let chart = Chart { logarithmic: false, ..chart(vec![(0.0, 1.0), (5.0, 1.0), (10.0, 1.0)]) };
        let steps: Vec<f64> = places(&chart.shapes(FILE)).windows(2).map(|two| two[1].0 - two[0].0).collect();
        assert!(steps.len() == 2 && (steps[0] - steps[1]).abs() < 1e-9, "{steps:?}");
    }

    #[test]
    fn a_legend_of_many_names_has_rows_and_stays_within_the_picture() {
        let mut chart = chart(vec![(1.0, 1.0), (10.0, 2.0)]);
        let one = chart.height(FILE);
        let series = chart.panels[0].series[0].clone();
        chart.panels[0].series =
            (0..12).map(|n| Series { name: format!("version {n}"), ..series.clone() }).collect();
        assert_eq!(chart.height(FILE), one + ROW);
        let shapes = chart.shapes(FILE);
        let ends = shapes.iter().filter_map(|shape| match shape {
            Shape::Words { at, text, .. } if text.starts_with("version") => {
                Some((at.0 + LETTER * text.len() as f64, at.1))
            }
            _ => None,
        });
        let ends: Vec<(f64, f64)> = ends.collect();
        assert!(
            ends.len() == 12 && ends.iter().all(|end| end.0 <= FILE.width && end.1 > FILE.title),
            "{ends:?}"
        );
    }

    #[test]
    fn an_svg_escapes_its_words_and_has_its_colours() {
        let text = chart(vec![(1.0, 1.0), (10.0, 2.0)]).svg();
        assert!(
            text.starts_with("<svg ") && text.contains("a &lt; b") && text.ends_with("</svg>\n"),
            "{text}"
        );
        assert!(text.contains("stroke=\"#ff0000\"") && text.contains("d=\"M"), "{text}");
    }

    #[test]
    fn points_without_a_place_are_left_out() {
        for points in [vec![], vec![(0.0, 1.0)], vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)]] {
            let chart = chart(points);
            assert!(!chart.shapes(FILE).iter().any(|shape| matches!(shape, Shape::Marks(_))));
            assert!(chart.svg().ends_with("</svg>\n"));
        }
    }
}
