//! Ratios of a grid as colours: a cell a box, with its number in it.
//!
//! The colours diverge from 1, which is nearly white: to blue above it, to red below it, in equal
//! steps of the logarithm. They are ColorBrewer's `RdBu` (Harrower and Brewer, 2003), whose two
//! ends people with any of the common colour blindnesses tell apart; and the number stands in each
//! cell. A ratio outside of a half to two has the colour of that end.

use super::svg::{self, Anchor, INK, Shape};

/// From the ratio 1/2 to the ratio 2.
const COLOURS: [u32; 9] = [
    0xb2_18_2b, 0xd6_60_4d, 0xf4_a5_82, 0xfd_db_c7, 0xf7_f7_f7, 0xd1_e5_f0, 0x92_c5_de, 0x43_93_c3,
    0x21_66_ac,
];
/// The colour of a cell without a ratio.
const EMPTY: u32 = 0xdd_dd_dd;
const WHITE: u32 = 0xff_ff_ff;
/// Above it all, for the title.
const TITLE: f64 = 24.0;
/// A cell.
const CELL: (f64, f64) = (58.0, 22.0);
/// Left of the cells, for the names of the rows.
const LEFT: f64 = 130.0;
/// Between two blocks, and right of the last one.
const GAP: f64 = 20.0;
/// Above a block, for its name and those of its columns.
const ABOVE: f64 = 48.0;
/// The ratios of the scale below the cells.
const SCALE: [&str; 9] = ["0.5", "0.7", "0.8", "0.9", "1", "1.1", "1.25", "1.4", "2"];
/// A line of words below the blocks, or the scale.
const LINE: f64 = 22.0;

/// A ratio and how it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The ratio, which decides the colour
    pub ratio: f64,
    /// The text in the cell
    pub text: String,
}

/// Cells of one kind.
#[derive(Clone, Debug)]
pub struct Block {
    /// The common property of the cells
    pub name: String,
    /// Row by row, each as long as there are columns; `None` where nothing can be said
    pub cells: Vec<Vec<Option<Cell>>>,
}

/// Blocks side by side, with the same rows and columns.
#[derive(Clone, Debug)]
pub struct Heat {
    /// The title above the picture
    pub title: String,
    /// The rows' names
    pub rows: Vec<String>,
    /// The columns' names
    pub columns: Vec<String>,
    /// The blocks, from left to right
    pub blocks: Vec<Block>,
    /// The lines below the picture
    pub notes: Vec<String>,
}

/// The colour of a ratio: the two nearest colours of the palette, mixed channel by channel. The
/// file's header has the scale.
fn colour(ratio: f64) -> u32 {
    let last = (COLOURS.len() - 1) as f64;
    let position = ((ratio.log2() + 1.0) / 2.0 * last).clamp(0.0, last);
    let (below, fraction) = (position.floor(), position.fract());
    let [low, high] = [below, position.ceil()].map(|at| COLOURS[at as usize]);
    [16, 8, 0].into_iter().fold(0, |mixed, shift| {
        let [low, high] = [low, high].map(|colour| f64::from(colour >> shift & 0xff));
        mixed | ((low + (high - low) * fraction).round() as u32) << shift
    })
}

/// Black or white, whichever can be read on this colour: by the brightness of ITU-R BT.601.
fn ink(colour: u32) -> u32 {
    let [red, green, blue] = [16, 8, 0].map(|shift| f64::from(colour >> shift & 0xff));
    if 0.299 * red + 0.587 * green + 0.114 * blue < 140.0 { WHITE } else { INK }
}

impl Heat {
    /// The picture as the text of an SVG file.
    pub fn svg(&self) -> String {
        let (width, height) = self.size();
        svg::write(&self.shapes(), width, height)
    }

    fn block(&self) -> f64 {
        self.columns.len() as f64 * CELL.0
    }

    fn size(&self) -> (f64, f64) {
        let lines = self.notes.len() as f64 + 2.0;
        let cells = self.blocks.len() as f64 * (self.block() + GAP);
        (
            LEFT + cells.max(SCALE.len() as f64 * CELL.0),
            TITLE + ABOVE + self.rows.len() as f64 * CELL.1 + lines * LINE,
        )
    }

    fn shapes(&self) -> Vec<Shape> {
        let mut shapes =
            vec![Shape::words((self.size().0 / 2.0, TITLE - 4.0), Anchor::Middle, &self.title, INK)];
        let top = TITLE + ABOVE;
        let filled = |(x, y): (f64, f64), text: &str, colour: u32, shapes: &mut Vec<Shape>| {
            // One unit remains white between two cells.
            let size = (CELL.0 - 1.0, CELL.1 - 1.0);
            shapes.push(Shape::Box { at: (x, y), size, colour, tip: String::new() });
            shapes.push(Shape::words(
                (x + CELL.0 / 2.0, y + CELL.1 / 2.0 + 4.0),
                Anchor::Middle,
                text,
                ink(colour),
            ));
        };
        for (row, name) in self.rows.iter().enumerate() {
            let y = top + (row as f64 + 0.5) * CELL.1 + 4.0;
            shapes.push(Shape::words((LEFT - 8.0, y), Anchor::End, name, INK));
        }
        for (at, block) in self.blocks.iter().enumerate() {
            let left = LEFT + at as f64 * (self.block() + GAP);
            shapes.push(Shape::words((left, top - 28.0), Anchor::Start, &block.name, INK));
            for (column, name) in self.columns.iter().enumerate() {
                let x = left + (column as f64 + 0.5) * CELL.0;
                shapes.push(Shape::words((x, top - 8.0), Anchor::Middle, name, INK));
            }
            for (row, cells) in block.cells.iter().enumerate() {
                for (column, cell) in cells.iter().enumerate() {
                    let place = (left + column as f64 * CELL.0, top + row as f64 * CELL.1);
                    match cell {
                        Some(cell) => filled(place, &cell.text, colour(cell.ratio), &mut shapes),
                        None => filled(place, "-", EMPTY, &mut shapes),
                    }
                }
            }
        }
        let mut y = top + self.rows.len() as f64 * CELL.1 + LINE / 2.0;
        for (at, ratio) in SCALE.iter().enumerate() {
            let value = ratio.parse().unwrap_or(f64::NAN);
            filled((LEFT + at as f64 * CELL.0, y), ratio, colour(value), &mut shapes);
        }
        y += LINE;
        for note in &self.notes {
            y += LINE;
            shapes.push(Shape::words((GAP, y - 4.0), Anchor::Start, note, INK));
        }
        shapes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat() -> Heat {
        let cell = |ratio: f64| Some(Cell { ratio, text: format!("{ratio}") });
        Heat {
            title: "t".into(),
            rows: vec!["a".into(), "b".into()],
            columns: vec!["2".into(), "4".into()],
            blocks: vec![Block {
                name: "x".into(),
                cells: vec![vec![cell(0.25), cell(1.0)], vec![cell(3.0), None]],
            }],
            notes: vec!["n".into()],
        }
    }

    #[test]
    fn one_is_in_the_middle_and_the_ends_are_far_from_it_and_from_each_other() {
        assert_eq!([0.1, 0.5, 1.0, 2.0, 9.0].map(colour), [0, 0, 4, 8, 8].map(|at| COLOURS[at]));
        // Redder below, bluer above, step by step.
        let warmth = |ratio| i64::from(colour(ratio) >> 16) - i64::from(colour(ratio) & 0xff);
        assert!([0.6, 0.8, 0.95, 1.0, 1.05, 1.2, 1.6].map(warmth).is_sorted_by(|a, b| a > b));
        assert_eq!([colour(0.5), colour(1.0), colour(2.0)].map(ink), [WHITE, INK, WHITE]);
    }

    #[test]
    fn each_cell_has_its_box_in_its_place_with_its_number() {
        let heat = heat();
        let (shapes, (width, height)) = (heat.shapes(), heat.size());
        let place = |text: &str| {
            let found = shapes.iter().find_map(|shape| match shape {
                Shape::Words { at, text: words, .. } if words == text => Some(*at),
                _ => None,
            });
            found.unwrap_or_else(|| panic!("{text} is nowhere"))
        };
        let (low, one, high, none) = (place("0.25"), place("1"), place("3"), place("-"));
        assert!(low.1 == one.1 && high.1 == none.1 && low.0 == high.0 && low.0 < one.0 && one.1 < none.1);
        let boxes = shapes.iter().filter_map(|shape| match shape {
            Shape::Box { at, size, colour, .. } => Some((*at, *size, *colour)),
            _ => None,
        });
        let boxes: Vec<_> = boxes.collect();
        let around = |(x, y): (f64, f64)| {
            let within = |b: &&((f64, f64), (f64, f64), u32)| {
                b.0.0 <= x && x <= b.0.0 + b.1.0 && b.0.1 <= y && y <= b.0.1 + b.1.1
            };
            boxes.iter().find(within).expect("a number is in a box").2
        };
        assert_eq!([low, one, high, none].map(around), [COLOURS[0], COLOURS[4], COLOURS[8], EMPTY]);
        assert!(boxes.iter().all(|(at, size, _)| at.0 + size.0 <= width && at.1 + size.1 <= height));
    }

    #[test]
    fn the_file_shows_the_colours() {
        let text = heat().svg();
        assert!(text.contains("fill=\"#b2182b\"") && text.contains("fill=\"#2166ac\""), "{text}");
    }
}
