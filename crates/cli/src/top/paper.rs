//! A screen to write on: text that is cut where there is no room, and rows of a table.
//!
//! What is bold or reversed also has a sign in its text (`>` at the selected row, the name of the
//! column by which rows are sorted), so nothing is lost on a terminal that shows neither colours
//! nor attributes.

use super::columns::{Placed, Spec};
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// How important a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// Like most
    Usual,
    /// A title
    Title,
    /// The heads of a table
    Heads,
    /// The head of the column by which rows are sorted
    Sorted,
    /// The selected row
    Selected,
    /// Remarkable
    Remarkable,
    /// Bad
    Bad,
}

/// A screen.
pub struct Paper<'a> {
    buffer: &'a mut Buffer,
    colours: bool,
}

impl<'a> Paper<'a> {
    /// On this buffer.
    pub fn new(buffer: &'a mut Buffer, colours: bool) -> Paper<'a> {
        Paper { buffer, colours }
    }

    /// Its width in characters.
    pub fn width(&self) -> usize {
        self.buffer.area.width.into()
    }

    /// Its height in rows.
    pub fn height(&self) -> usize {
        self.buffer.area.height.into()
    }

    fn style(&self, weight: Weight) -> Style {
        let (usual, colour) =
            (Style::new(), |colour| if self.colours { Style::new().fg(colour) } else { Style::new() });
        match weight {
            Weight::Usual => usual,
            Weight::Title => usual.add_modifier(Modifier::BOLD),
            Weight::Heads | Weight::Selected => usual.add_modifier(Modifier::REVERSED),
            Weight::Sorted => usual.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Weight::Remarkable => colour(Color::Yellow),
            Weight::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Writes a line from `x` on, cut at `width` characters and at the edge.
    pub fn put(&mut self, x: usize, y: usize, text: &str, width: usize, weight: Weight) {
        if x >= self.width() || y >= self.height() {
            return;
        }
        let width = width.min(self.width() - x);
        self.buffer.set_stringn(x as u16, y as u16, cut(text, width), width, self.style(weight));
    }

    /// Writes a whole line.
    pub fn line(&mut self, y: usize, text: &str, weight: Weight) {
        self.put(0, y, text, self.width(), weight);
    }

    /// Gives a whole line a look, and leaves its text.
    pub fn mark(&mut self, y: usize, weight: Weight) {
        let style = self.style(weight);
        if y < self.height() {
            for x in 0..self.buffer.area.width {
                self.buffer[(x, y as u16)].set_style(style);
            }
        }
    }

    /// Writes the heads of a table, `x` characters from the left.
    pub fn heads(&mut self, x: usize, y: usize, specs: &[Spec], placed: &[Placed], sorted: Option<usize>) {
        self.mark(y, Weight::Heads);
        for place in placed {
            let weight = if sorted == Some(place.column) { Weight::Sorted } else { Weight::Heads };
            self.cell(x, y, specs, *place, specs[place.column].head, weight);
        }
    }

    /// Writes a row of a table.
    pub fn row(
        &mut self,
        x: usize,
        y: usize,
        specs: &[Spec],
        placed: &[Placed],
        cell: impl Fn(usize) -> (String, Weight),
    ) {
        for place in placed {
            let (text, weight) = cell(place.column);
            self.cell(x, y, specs, *place, &text, weight);
        }
    }

    fn cell(&mut self, x: usize, y: usize, specs: &[Spec], place: Placed, text: &str, weight: Weight) {
        let text = cut(text, place.width);
        let spare = if specs[place.column].is_text { 0 } else { place.width - width(&text).min(place.width) };
        self.put(x + place.x + spare, y, &text, place.width - spare, weight);
    }
}

/// How many places on the screen a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text that fits into `room` places. Where something was cut off there is a `+`.
fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut short = text.to_owned();
    while !short.is_empty() && width(&short) >= room.max(1) {
        short.pop();
    }
    if room > 0 {
        short.push('+');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ratatui::layout::Rect;

    #[test]
    fn what_is_cut_off_leaves_a_sign() {
        for (text, room, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab+"),
            ("日本語", 5, "日本+"),
            ("日本語", 4, "日+"),
            ("ab", 1, "+"),
            ("ab", 0, ""),
        ] {
            assert_eq!(cut(text, room), expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_at_any_place_leaves_the_screen(x in 0..30_usize, y in 0..9_usize, text in "\\PC{0,30}", room in 0..40_usize) {
            let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 5));
            Paper::new(&mut buffer, true).put(x, y, &text, room, Weight::Bad);
            prop_assert!(width(&cut(&text, room)) <= room);
        }
    }
}
