//! Shapes as SVG.

use super::{Anchor, Shape};
use std::fmt::Write as _;

/// The text of an SVG file.
pub(super) fn write(shapes: &[Shape], width: f64, height: f64) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for shape in shapes {
        // Writing to a String does not fail.
        let _ = match shape {
            Shape::Line { from, to, colour, width } => writeln!(
                text,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#{colour:06x}\" stroke-width=\"{width}\"/>",
                from.0, from.1, to.0, to.1
            ),
            Shape::Dot { at, colour } => {
                writeln!(
                    text,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#{colour:06x}\"/>",
                    at.0, at.1
                )
            }
            Shape::Box { at, size, colour } => {
                writeln!(
                    text,
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"#{colour:06x}\"/>",
                    at.0, at.1, size.0, size.1
                )
            }
            Shape::Words { at, anchor, text: words, colour } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let words = words.replace('&', "&amp;").replace('<', "&lt;");
                writeln!(
                    text,
                    "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"#{colour:06x}\">{words}</text>",
                    at.0, at.1
                )
            }
        };
    }
    text.push_str("</svg>\n");
    text
}
