//! Shapes as pixels, two a unit, and as PNG.
//!
//! Lines and dots are drawn by distance: a pixel is covered as far as the shape's edge reaches into
//! it. Words are of a bitmap font of 8 by 8 pixels, so that a picture needs no fonts on the
//! machine.

use super::{Anchor, Shape};
use font8x8::UnicodeFonts as _;

/// Pixels a unit.
const SCALE: f64 = 2.0;
/// A letter's width in units; its 8 pixels are doubled.
const LETTER: f64 = 8.0;
/// A dot's radius in units.
const RADIUS: f64 = 3.5;

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// The bytes of a PNG file.
pub(super) fn encode(shapes: &[Shape], width: f64, height: f64) -> Result<Vec<u8>, String> {
    let (width, height) = ((width * SCALE) as usize, (height * SCALE) as usize);
    let mut canvas = Canvas { width, height, pixels: vec![0xff; width * height * 3] };
    let scale = |(x, y): (f64, f64)| (x * SCALE, y * SCALE);
    for shape in shapes {
        match shape {
            Shape::Line { from, to, colour, width } => {
                canvas.stroke(scale(*from), scale(*to), width * SCALE / 2.0, *colour);
            }
            Shape::Dot { at, colour } => canvas.stroke(scale(*at), scale(*at), RADIUS * SCALE, *colour),
            Shape::Box { at, size, colour } => canvas.fill(scale(*at), scale(*size), *colour),
            Shape::Words { at, anchor, text, colour } => {
                let length = text.chars().count() as f64 * LETTER;
                let before = match anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => length / 2.0,
                    Anchor::End => length,
                };
                canvas.words(scale((at.0 - before, at.1 - LETTER)), text, *colour);
            }
        }
    }
    canvas.encode().map_err(|error| error.to_string())
}

impl Canvas {
    /// All that is within `radius` of the way from `from` to `to`.
    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), radius: f64, colour: u32) {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let length_squared = across * across + down * down;
        let reach = radius + 1.0;
        let span = |a: f64, b: f64, end: usize| {
            let (low, high) = (a.min(b) - reach, a.max(b) + reach);
            (low.max(0.0) as usize)..(high.max(0.0) as usize + 1).min(end)
        };
        for y in span(from.1, to.1, self.height) {
            for x in span(from.0, to.0, self.width) {
                let (px, py) = (x as f64 + 0.5 - from.0, y as f64 + 0.5 - from.1);
                let along = if length_squared > 0.0 {
                    ((px * across + py * down) / length_squared).clamp(0.0, 1.0)
                } else {
                    0.0
                };
                let distance = (px - along * across).hypot(py - along * down);
                self.blend(x, y, (radius + 0.5 - distance).clamp(0.0, 1.0), colour);
            }
        }
    }

    /// A box whose upper left corner is at `at`, to whole pixels.
    fn fill(&mut self, at: (f64, f64), size: (f64, f64), colour: u32) {
        let span = |from: f64, length: f64| from.max(0.0) as usize..(from + length).max(0.0) as usize;
        for y in span(at.1, size.1) {
            span(at.0, size.0).for_each(|x| self.blend(x, y, 1.0, colour));
        }
    }

    /// Words whose upper left corner is at `at`.
    fn words(&mut self, at: (f64, f64), text: &str, colour: u32) {
        for (number, letter) in text.chars().enumerate() {
            let left = at.0 + number as f64 * LETTER * SCALE;
            let glyph = glyph(letter);
            for (row, bits) in glyph.iter().enumerate() {
                for column in (0..8).filter(|column| bits >> column & 1 == 1) {
                    for (dx, dy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                        let (x, y) = (left as i64 + column * 2 + dx, at.1 as i64 + row as i64 * 2 + dy);
                        if let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) {
                            self.blend(x, y, 1.0, colour);
                        }
                    }
                }
            }
        }
    }

    fn blend(&mut self, x: usize, y: usize, share: f64, colour: u32) {
        if x >= self.width || y >= self.height {
            return;
        }
        let at = (y * self.width + x) * 3;
        for (byte, shift) in self.pixels[at..at + 3].iter_mut().zip([16, 8, 0]) {
            let aim = f64::from(colour >> shift & 0xff);
            *byte = (f64::from(*byte) + (aim - f64::from(*byte)) * share).round() as u8;
        }
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

/// A letter's rows, from the top; the lowest bit is the leftmost pixel. An unknown letter is a
/// question mark.
fn glyph(letter: char) -> [u8; 8] {
    let known = font8x8::BASIC_FONTS.get(letter).or_else(|| font8x8::LATIN_FONTS.get(letter));
    known.or_else(|| font8x8::BASIC_FONTS.get('?')).unwrap_or_default()
}
