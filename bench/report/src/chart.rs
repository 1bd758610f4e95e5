//! Pictures, as SVG: panels above each other over one axis; and ratios as colours ([`heat`]).
//!
//! `Chart::shapes` makes a picture of four kinds of shapes, lines, dots, boxes and words, in the
//! units of an SVG, and `svg` writes them.

pub mod heat;
mod svg;

/// Of the whole picture.
const WIDTH: f64 = 760.0;
/// Of one panel, between its axes.
const PANEL: f64 = 240.0;
/// Left of the panels, for the labels of their axes.
const LEFT: f64 = 90.0;
/// Right of them, for half a label.
const RIGHT: f64 = 40.0;
/// Above a panel, for its name and a row of its legend.
const ABOVE: f64 = 46.0;
/// A further row of a legend.
const ROW: f64 = 16.0;
/// Below the last one, for the labels of the axis they share.
const BELOW: f64 = 50.0;
/// Above them all, for the title.
const TITLE: f64 = 24.0;
/// The axes' colour.
const INK: u32 = 0x33_33_33;
/// The colour of the lines behind.
const GRID: u32 = 0xdd_dd_dd;
/// The largest number of ticks on an axis.
const TICKS_MAX: usize = 64;
/// On a logarithmic axis that reaches further than this there is one a decade, or their labels
/// would cover each other.
const CROWDED: f64 = 2000.0;

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

/// Where words stand, as seen from their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A part of the picture.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Line { from: (f64, f64), to: (f64, f64), colour: u32, width: f64 },
    Dot { at: (f64, f64), colour: u32 },
    Box { at: (f64, f64), size: (f64, f64), colour: u32 },
    Words { at: (f64, f64), anchor: Anchor, text: String, colour: u32 },
}

/// From values to places.
#[derive(Clone, Copy, Debug)]
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, logarithmic: bool) -> Axis {
        let shown = values.filter(|v| v.is_finite() && (*v > 0.0 || !logarithmic));
        let (mut low, mut high) = shown.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        if !logarithmic {
            return Axis { low: 0.0, high: if high > 0.0 { high * 1.1 } else { 1.0 }, logarithmic };
        }
        if !low.is_finite() {
            (low, high) = (1.0, 10.0);
        }
        Axis { low: low / 1.15, high: high * 1.15, logarithmic }
    }

    /// From 0 to 1, or nothing outside.
    fn place(self, value: f64) -> Option<f64> {
        let scale = |v: f64| if self.logarithmic { v.ln() } else { v };
        let place = (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low));
        (0.0..=1.0).contains(&place).then_some(place)
    }

    /// Where the axis is labelled: 1, 2 and 5 of each decade or 1 alone, or about five round steps.
    fn ticks(self) -> Vec<f64> {
        let power = |v: f64| 10f64.powf(v.log10().floor());
        if self.logarithmic {
            let digits = if self.high / self.low > CROWDED { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
            let mut ticks = Vec::new();
            let mut decade = power(self.low);
            while decade <= self.high && ticks.len() < TICKS_MAX {
                ticks.extend(digits.iter().map(|digit| digit * decade));
                decade *= 10.0;
            }
            ticks.retain(|&tick| tick >= self.low && tick <= self.high);
            return ticks;
        }
        let rough = self.high / 5.0;
        let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power(rough) >= rough);
        let step = digit.unwrap_or(10.0) * power(rough);
        (0..TICKS_MAX).map(|n| n as f64 * step).take_while(|&tick| tick <= self.high).collect()
    }
}

impl Chart {
    /// Its height, in the units of its SVG.
    fn height(&self) -> f64 {
        TITLE + self.panels.iter().map(|panel| panel.above() + PANEL).sum::<f64>() + BELOW
    }

    /// As the text of an SVG file.
    pub fn svg(&self) -> String {
        svg::write(&self.shapes(), WIDTH, self.height())
    }

    fn shapes(&self) -> Vec<Shape> {
        let xs = self.panels.iter().flat_map(|panel| &panel.series).flat_map(|s| &s.points).map(|p| p.0);
        let across = Axis::over(xs, self.logarithmic);
        let words = |at, anchor, text: &str| Shape::Words { at, anchor, text: text.into(), colour: INK };
        let mut shapes = vec![words((WIDTH / 2.0, TITLE - 4.0), Anchor::Middle, &self.title)];
        let (left, right) = (LEFT, WIDTH - RIGHT);
        let mut bottom = TITLE;
        for panel in &self.panels {
            let top = bottom + panel.above();
            bottom = top + PANEL;
            panel.draw(across, (left, top), (right, bottom), &mut shapes);
        }
        for tick in across.ticks() {
            let Some(place) = across.place(tick) else { continue };
            let x = left + place * (right - left);
            shapes.push(words((x, bottom + 18.0), Anchor::Middle, &(self.label)(tick)));
        }
        shapes.push(words(((left + right) / 2.0, bottom + 40.0), Anchor::Middle, &self.name));
        shapes
    }
}

impl Panel {
    /// Where each series' name stands, `(row, x)` from the left of the legend.
    fn legend(&self) -> Vec<(usize, f64)> {
        let (mut row, mut x) = (0, 0.0);
        let place = |series: &Series| {
            let width = 28.0 + 8.0 * series.name.chars().count() as f64;
            if x > 0.0 && x + width > WIDTH - LEFT {
                (row, x) = (row + 1, 0.0);
            }
            let place = (row, x);
            x += width;
            place
        };
        self.series.iter().map(place).collect()
    }

    /// Its room above, for name and legend.
    fn above(&self) -> f64 {
        ABOVE + ROW * self.legend().last().map_or(0, |(row, _)| *row) as f64
    }

    fn draw(
        &self,
        across: Axis,
        (left, top): (f64, f64),
        (right, bottom): (f64, f64),
        shapes: &mut Vec<Shape>,
    ) {
        let up = Axis::over(self.series.iter().flat_map(|s| &s.points).map(|p| p.1), self.logarithmic);
        let x = |value| across.place(value).map(|place| left + place * (right - left));
        let y = |value| up.place(value).map(|place| bottom - place * (bottom - top));
        let line = |from, to, colour, width| Shape::Line { from, to, colour, width };
        let words = |at, anchor, text: &str, colour| Shape::Words { at, anchor, text: text.into(), colour };
        for x in across.ticks().into_iter().filter_map(x) {
            shapes.push(line((x, top), (x, bottom), GRID, 1.0));
        }
        for tick in up.ticks() {
            let Some(y) = y(tick) else { continue };
            shapes.push(line((left, y), (right, y), GRID, 1.0));
            shapes.push(words((left - 8.0, y + 4.0), Anchor::End, &(self.label)(tick), INK));
        }
        shapes.push(line((left, top), (left, bottom), INK, 1.0));
        shapes.push(line((left, bottom), (right, bottom), INK, 1.0));
        shapes.push(words((left, top - self.above() + 22.0), Anchor::Start, &self.name, INK));
        let legend = self.legend();
        let rows = legend.last().map_or(0, |(row, _)| *row);
        for (series, (row, x_legend)) in self.series.iter().zip(legend) {
            let colour = series.colour;
            let places: Vec<_> = series.points.iter().filter_map(|p| Some((x(p.0)?, y(p.1)?))).collect();
            if places.is_empty() {
                continue;
            }
            if series.line {
                shapes.extend(places.windows(2).map(|pair| line(pair[0], pair[1], colour, 2.0)));
            }
            if series.dots {
                shapes.extend(places.iter().map(|&at| Shape::Dot { at, colour }));
            }
            let (left, up) = (left + x_legend, ROW * (rows - row) as f64);
            shapes.push(Shape::Dot { at: (left + 4.0, top - 12.0 - up), colour });
            shapes.push(words((left + 12.0, top - 8.0 - up), Anchor::Start, &series.name, colour));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let label: Label = |v| format!("{v}");
        let series = Series { name: "a < b".into(), colour: 0xff_00_00, line: true, dots: true, points };
        let panel = Panel { name: "up".into(), logarithmic: false, label, series: vec![series] };
        Chart { title: "T".into(), name: "across".into(), logarithmic: true, label, panels: vec![panel] }
    }

    #[test]
    fn larger_values_stand_higher_and_further_right() {
        let shapes = chart(vec![(1.0, 1.0), (10.0, 2.0)]).shapes();
        let ends = shapes.iter().find_map(|shape| match shape {
            Shape::Line { from, to, colour: 0xff_00_00, .. } => Some((*from, *to)),
            _ => None,
        });
        let ((x0, y0), (x1, y1)) = ends.unwrap();
        assert!(x0 < x1 && y0 > y1, "{ends:?}");
    }

    #[test]
    fn a_linear_axis_begins_at_nothing_and_has_equal_steps() {
        let chart = Chart { logarithmic: false, ..chart(vec![(0.0, 1.0), (5.0, 1.0), (10.0, 1.0)]) };
        let dots = chart.shapes().into_iter().filter_map(|shape| match shape {
            Shape::Line { from, to, colour: 0xff_00_00, .. } => Some(to.0 - from.0),
            _ => None,
        });
        let steps: Vec<f64> = dots.collect();
        assert!(steps.len() == 2 && (steps[0] - steps[1]).abs() < 1e-9, "{steps:?}");
    }

    #[test]
    fn a_legend_of_many_names_has_rows_and_stays_within_the_picture() {
        let mut chart = chart(vec![(1.0, 1.0), (10.0, 2.0)]);
        let one = chart.height();
        let series = chart.panels[0].series[0].clone();
        chart.panels[0].series =
            (0..12).map(|n| Series { name: format!("version {n}"), ..series.clone() }).collect();
        assert_eq!(chart.height(), one + ROW);
        let shapes = chart.shapes();
        let ends = shapes.iter().filter_map(|shape| match shape {
            Shape::Words { at, text, .. } if text.starts_with("version") => {
                Some((at.0 + 8.0 * text.len() as f64, at.1))
            }
            _ => None,
        });
        let ends: Vec<(f64, f64)> = ends.collect();
        assert!(ends.len() == 12 && ends.iter().all(|end| end.0 <= WIDTH && end.1 > TITLE), "{ends:?}");
    }

    #[test]
    fn an_svg_escapes_its_words_and_has_its_colours() {
        let text = chart(vec![(1.0, 1.0), (10.0, 2.0)]).svg();
        assert!(
            text.starts_with("<svg ") && text.contains("a &lt; b") && text.ends_with("</svg>\n"),
            "{text}"
        );
        assert!(text.contains("stroke=\"#ff0000\""), "{text}");
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        for points in [vec![], vec![(0.0, 1.0)], vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)]] {
            let chart = chart(points);
            let dots = chart.shapes().iter().filter(|s| matches!(s, Shape::Dot { .. })).count();
            assert_eq!(dots, 0);
            assert!(chart.svg().ends_with("</svg>\n"));
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis { low: 30.0, high: 700.0, logarithmic: true };
        assert_eq!(axis.ticks(), [50.0, 100.0, 200.0, 500.0]);
        let axis = Axis { low: 30.0, high: 70_000.0, logarithmic: true };
        assert_eq!(axis.ticks(), [100.0, 1000.0, 10_000.0]);
        let axis = Axis { low: 0.0, high: 42.0, logarithmic: false };
        assert_eq!(axis.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
    }
}
