//! The shapes of a picture, and how they are written as SVG: into a file, or into a page.
//!
//! In a file each colour is written as it is. In a page a colour of [`ROLES`] or [`PALETTE`] is a
//! class, so that the page decides what it looks like, by light and by dark; and what the picture
//! says at a place is an attribute that the page's script reads:
//!
//! | element | attribute | what |
//! | --- | --- | --- |
//! | `g.marks` | `data-name` | the name of a series |
//! | | `data-tips` | a text for each point of its path, with `|` in between |
//! | `rect` | `data-tip` | the text of a box |
//!
//! All text is escaped here, and nowhere else: a name from a result cannot end an attribute or an
//! element.

use std::fmt::Write as _;

/// The axes' colour.
pub(crate) const INK: u32 = 0x33_33_33;
/// The colour of the lines behind.
pub(crate) const GRID: u32 = 0xdd_dd_dd;
/// What is there to compare with.
pub(crate) const MUTED: u32 = 0x88_88_88;
/// What is there and does nothing.
pub(crate) const QUIET: u32 = 0xbb_bb_bb;
/// Good and bad ends of a ratio.
pub(crate) const GOOD: u32 = 0x0f_7b_57;
/// See [`GOOD`].
pub(crate) const BAD: u32 = 0xb4_23_18;
/// What is written on a colour.
pub(crate) const PAPER: u32 = 0xff_ff_ff;
/// The colours of series on a page: classes `s0` to `s7`.
pub(crate) const PALETTE: [u32; 8] =
    [0x0b_62_b8, 0xc2_41_0c, 0x0f_7b_58, 0x7c_3a_ed, 0x94_62_00, 0xbe_18_5d, 0x0e_74_90, 0x47_55_69];
/// The classes of the other colours.
const ROLES: [(u32, &str); 7] = [
    (INK, "ink"),
    (GRID, "grid"),
    (MUTED, "muted"),
    (QUIET, "quiet"),
    (GOOD, "good"),
    (BAD, "bad"),
    (PAPER, "paper"),
];

/// Where words stand, as seen from their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Points of one series, and what is said at each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Marks {
    pub(crate) name: String,
    pub(crate) at: Vec<(f64, f64)>,
    /// As many as there are points, or none
    pub(crate) tips: Vec<String>,
    pub(crate) colour: u32,
    pub(crate) line: bool,
    pub(crate) dots: bool,
}

/// A part of the picture.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Line {
        from: (f64, f64),
        to: (f64, f64),
        colour: u32,
        width: f64,
    },
    Marks(Marks),
    /// `tip` is what is said at it; nothing if it is empty
    Box {
        at: (f64, f64),
        size: (f64, f64),
        colour: u32,
        tip: String,
    },
    Words {
        at: (f64, f64),
        anchor: Anchor,
        text: String,
        colour: u32,
    },
}

impl Shape {
    pub(crate) fn words(at: (f64, f64), anchor: Anchor, text: &str, colour: u32) -> Shape {
        Shape::Words { at, anchor, text: text.into(), colour }
    }

    pub(crate) fn line(from: (f64, f64), to: (f64, f64), colour: u32) -> Shape {
        Shape::Line { from, to, colour, width: 1.0 }
    }
}

/// A text for attributes and elements.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// How a colour is written: `(class, value)`.
fn paint(colour: u32, is_page: bool) -> (String, String) {
    let role = || ROLES.iter().find(|(role, _)| *role == colour).map(|(_, class)| (*class).to_owned());
    let series = || PALETTE.iter().position(|own| *own == colour).map(|at| format!("s{at}"));
    match is_page.then(|| role().or_else(series)).flatten() {
        Some(class) => (format!(" class=\"{class}\""), "currentColor".into()),
        None => (String::new(), format!("#{colour:06x}")),
    }
}

/// The text of an SVG file.
pub(crate) fn write(shapes: &[Shape], width: f64, height: f64) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    draw(shapes, false, &mut text);
    text.push_str("</svg>\n");
    text
}

/// The same for a page: `id` names its title and description for screen readers, `class` its size.
pub(crate) fn embed(
    shapes: &[Shape],
    (width, height): (f64, f64),
    class: &str,
    id: &str,
    (title, description): (&str, &str),
) -> String {
    let mut text = format!(
        "<svg class=\"{class}\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
         aria-labelledby=\"{id}-t\" aria-describedby=\"{id}-d\" style=\"max-width:{:.0}px\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>\n",
        width * 1.25,
        escape(title),
        escape(description)
    );
    draw(shapes, true, &mut text);
    text.push_str("</svg>");
    text
}

fn draw(shapes: &[Shape], is_page: bool, text: &mut String) {
    for shape in shapes {
        // Writing to a String does not fail.
        let _ = match shape {
            Shape::Line { from, to, colour, width } => {
                let (class, value) = paint(*colour, is_page);
                writeln!(
                    text,
                    "<line{class} x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{value}\" \
                     stroke-width=\"{width}\"/>",
                    from.0, from.1, to.0, to.1
                )
            }
            Shape::Marks(marks) => {
                draw_marks(marks, is_page, text);
                Ok(())
            }
            Shape::Box { at, size, colour, tip } => {
                let (class, value) = paint(*colour, is_page);
                let tip = match tip.is_empty() || !is_page {
                    true => String::new(),
                    false => format!(" data-tip=\"{}\"", escape(tip)),
                };
                writeln!(
                    text,
                    "<rect{class} x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{value}\"{tip}/>",
                    at.0, at.1, size.0, size.1
                )
            }
            Shape::Words { at, anchor, text: words, colour } => {
                let (class, value) = paint(*colour, is_page);
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                writeln!(
                    text,
                    "<text{class} x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" fill=\"{value}\">{}</text>",
                    at.0,
                    at.1,
                    escape(words)
                )
            }
        };
    }
}

fn draw_marks(marks: &Marks, is_page: bool, text: &mut String) {
    let (class, value) = paint(marks.colour, is_page);
    let class = match class.strip_suffix('"') {
        Some(class) => class.replace("class=\"", "class=\"marks ") + "\"",
        None => " class=\"marks\"".into(),
    };
    let said = match is_page && !marks.tips.is_empty() {
        true => {
            let tips: Vec<String> = marks.tips.iter().map(|tip| tip.replace('|', "/")).collect();
            let (name, tips) = (escape(&marks.name), escape(&tips.join("|")));
            format!(" data-name=\"{name}\" data-tips=\"{tips}\"")
        }
        false => String::new(),
    };
    let _ = write!(text, "<g{class}{said}>");
    if marks.line || !said.is_empty() {
        let stroke = if marks.line { value.as_str() } else { "none" };
        let _ = write!(text, "<path fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\" d=\"");
        for (at, (x, y)) in marks.at.iter().enumerate() {
            let _ = write!(text, "{}{x:.1},{y:.1}", if at == 0 { 'M' } else { 'L' });
        }
        text.push_str("\"/>");
    }
    for (x, y) in marks.at.iter().filter(|_| marks.dots) {
        let _ = write!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{value}\"/>");
    }
    text.push_str("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Shape {
        Shape::Marks(Marks {
            name: "a\"<b".into(),
            at: vec![(1.0, 2.0), (3.0, 4.0)],
            tips: vec!["x|y".into(), "</g>".into()],
            colour: PALETTE[2],
            line: true,
            dots: false,
        })
    }

    #[test]
    fn a_file_has_colours_and_a_page_has_classes_and_tips() {
        let file = write(&[marks()], 10.0, 10.0);
        assert!(file.contains("stroke=\"#0f7b58\"") && !file.contains("data-"), "{file}");
        let page = embed(&[marks()], (10.0, 10.0), "wide", "p1", ("t", "d"));
        assert!(page.contains("class=\"marks s2\"") && page.contains("d=\"M1.0,2.0L3.0,4.0\""), "{page}");
        assert!(page.contains("data-tips=\"x/y|&lt;/g&gt;\"") && page.contains("a&quot;&lt;b"), "{page}");
    }

    #[test]
    fn no_two_roles_have_one_colour() {
        let mut all: Vec<u32> = ROLES.iter().map(|(role, _)| *role).chain(PALETTE).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), ROLES.len() + PALETTE.len());
    }
}
