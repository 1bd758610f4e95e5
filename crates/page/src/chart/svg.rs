//! The shapes of a picture, and how they are written as SVG: into a file, or into a page.
//!
//! In a file each colour is written as a number. In a page a colour of [`ROLES`] or [`PALETTE`] is
//! a class, so that the page's styles decide the colour, in light and in dark mode. In a page,
//! points and boxes also have *tips*: texts that the page's script shows when the reader points
//! there.
//!
//! | element | attribute | what |
//! | --- | --- | --- |
//! | `g.marks` | `data-name` | the name of a series |
//! | | `data-tips` | the tip of each point of the path, with `|` in between |
//! | `rect` | `data-tip` | the tip of a box |
//!
//! All text of a picture is escaped here, and nowhere else: a name from a result cannot end an
//! attribute or an element.

use std::fmt::Write as _;

/// The axes' colour.
pub(crate) const INK: u32 = 0x33_33_33;
/// The colour of the grid lines.
pub(crate) const GRID: u32 = 0xdd_dd_dd;
/// The colour of targets, and of changes that are neither good nor bad.
pub(crate) const MUTED: u32 = 0x88_88_88;
/// The colour of threads that sleep.
pub(crate) const QUIET: u32 = 0xbb_bb_bb;
/// The colour of a change for the better.
pub(crate) const GOOD: u32 = 0x0f_7b_57;
/// The colour of a change for the worse.
pub(crate) const BAD: u32 = 0xb4_23_18;
/// The colour of words on a coloured box.
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

/// Which end of the words is at their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The points of one series, with their tips.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Marks {
    pub(crate) name: String,
    pub(crate) at: Vec<(f64, f64)>,
    /// One tip for each point; or empty: no point has one
    pub(crate) tips: Vec<String>,
    pub(crate) colour: u32,
    pub(crate) line: bool,
    pub(crate) dots: bool,
    pub(crate) rings: bool,
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
    /// A box; an empty `tip` is none
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

/// The text with all characters escaped that mean something in attributes and elements.
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

/// How a colour is written: the attribute `class` (empty in a file), and the value of `stroke` or
/// `fill`.
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

/// The text of an SVG element for a page. `id` is a prefix for the ids of the title and the
/// description, which screen readers read; `class` decides the size.
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

/// Adds the elements of all shapes to `text`.
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

/// Adds the element of one series: its path, if it has a line or tips, its dots and rings.
fn draw_marks(marks: &Marks, is_page: bool, text: &mut String) {
    let (class, value) = paint(marks.colour, is_page);
    let class = match class.strip_suffix('"') {
        Some(class) => class.replace("class=\"", "class=\"marks ") + "\"",
        None => " class=\"marks\"".into(),
    };
    let attributes = match is_page && !marks.tips.is_empty() {
        true => {
            let tips: Vec<String> = marks.tips.iter().map(|tip| tip.replace('|', "/")).collect();
            let (name, tips) = (escape(&marks.name), escape(&tips.join("|")));
            format!(" data-name=\"{name}\" data-tips=\"{tips}\"")
        }
        false => String::new(),
    };
    let _ = write!(text, "<g{class}{attributes}>");
    if marks.line || !attributes.is_empty() {
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
    for (x, y) in marks.at.iter().filter(|_| marks.rings) {
        let _ = write!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" stroke=\"{value}\" stroke-width=\"2\"/>"
        );
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
            rings: false,
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
    fn a_ring_is_empty_and_a_dot_is_full() {
        let Shape::Marks(one) = marks() else { panic!("marks are marks") };
        let of = |dots, rings| write(&[Shape::Marks(Marks { dots, rings, ..one.clone() })], 10.0, 10.0);
        let count = |text: &str, what: &str| text.matches(what).count();
        let ring = "r=\"6\" fill=\"none\" stroke=\"#0f7b58\"";
        assert_eq!((count(&of(false, true), ring), count(&of(true, false), ring)), (2, 0));
        assert_eq!(count(&of(true, true), "<circle"), 4);
    }

    #[test]
    fn no_two_roles_have_one_colour() {
        let mut all: Vec<u32> = ROLES.iter().map(|(role, _)| *role).chain(PALETTE).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), ROLES.len() + PALETTE.len());
    }
}
