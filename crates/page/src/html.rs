//! The parts of a page: tables, pictures, lists of facts.
//!
//! 1. Everything is readable without the script. The script turns the heads of tables into buttons
//!    that sort, adds the buttons for download, and shows the values of a picture at the pointer or
//!    at the keyboard's cursor.
//! 2. A picture has a title, a description and, behind a `details`, its figures as a table.
//! 3. All text goes through `maud`, which escapes it, or through `chart::svg`, which does so too.

use crate::chart::svg::{Shape, embed};
use crate::chart::{BROAD, Frame, NARROW, WIDE};
use maud::{Markup, PreEscaped, html};

/// Numbers for the ids of elements, each once in a page, and how much fits into it.
pub(crate) struct Ids {
    last: usize,
    /// The most rows of a table
    pub(crate) rows_max: usize,
    /// The most pictures
    pub(crate) pictures_max: usize,
    pictures: usize,
}

impl Ids {
    pub(crate) fn new(rows_max: usize, pictures_max: usize) -> Ids {
        Ids { last: 0, rows_max, pictures_max, pictures: 0 }
    }

    /// A new one.
    pub(crate) fn next(&mut self) -> String {
        self.last += 1;
        format!("m{}", self.last)
    }

    /// Whether there is room for another picture.
    pub(crate) fn has_room(&self) -> bool {
        self.pictures < self.pictures_max
    }
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) is_number: bool,
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    #[default]
    Plain,
    /// A word of a program
    Code,
    /// Said before
    Again,
    Good,
    Bad,
    Open,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// What it is sorted by, if that is not the text
    pub(crate) value: Option<f64>,
    pub(crate) look: Look,
}

impl Cell {
    /// A word.
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }

    /// A word of a program.
    pub(crate) fn code(text: impl Into<String>) -> Cell {
        Cell { look: Look::Code, ..Cell::text(text) }
    }

    /// A number, and how it is written.
    pub(crate) fn number(value: f64, text: impl Into<String>) -> Cell {
        Cell { text: text.into(), value: Some(value).filter(|value| value.is_finite()), look: Look::Plain }
    }

    /// A count.
    pub(crate) fn count(value: u64) -> Cell {
        Cell::number(value as f64, value.to_string())
    }

    pub(crate) fn looks(self, look: Look) -> Cell {
        Cell { look, ..self }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) caption: String,
    pub(crate) heads: Vec<Head>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// A table without rows; a head that ends with `#` is of numbers.
    pub(crate) fn new(caption: impl Into<String>, heads: &[&str]) -> Grid {
        let head =
            |head: &&str| Head { name: head.trim_end_matches(" #").into(), is_number: head.ends_with(" #") };
        Grid { caption: caption.into(), heads: heads.iter().map(head).collect(), rows: Vec::new() }
    }

    /// The table as HTML; nothing if it has no rows.
    pub(crate) fn markup(&self, ids: &mut Ids) -> Markup {
        if self.rows.is_empty() {
            return html! {};
        }
        let id = ids.next();
        let left_out = self.rows.len().saturating_sub(ids.rows_max);
        html! {
            div.table {
                div.scroll role="group" tabindex="0" aria-labelledby=(id) {
                    table {
                        caption id=(id) { (self.caption) }
                        thead {
                            tr {
                                @for head in &self.heads {
                                    th.n[head.is_number] scope="col" { (head.name) }
                                }
                            }
                        }
                        tbody {
                            @for row in self.rows.iter().take(ids.rows_max) {
                                tr {
                                    @for (cell, head) in row.iter().zip(&self.heads) { (cell.markup(head.is_number)) }
                                }
                            }
                        }
                    }
                }
                @if left_out > 0 {
                    p.small { (left_out) " more rows are left out here; the result's JSON has them." }
                }
            }
        }
    }
}

impl Cell {
    fn markup(&self, is_number: bool) -> Markup {
        let class = match self.look {
            Look::Again => Some("again"),
            Look::Good => Some("is-good"),
            Look::Bad => Some("is-bad"),
            Look::Open => Some("is-open"),
            Look::Plain | Look::Code => None,
        };
        html! {
            td.n[is_number] data-v=[self.value] {
                @match (self.look, class) {
                    (Look::Code, _) => code { (self.text) },
                    (_, Some(class)) => span class=(class) { (self.text) },
                    _ => (self.text),
                }
            }
        }
    }
}

/// A picture in words; its shapes are drawn for each frame.
pub(crate) struct Picture<'a> {
    pub(crate) title: &'a str,
    /// What there is to see, in a sentence
    pub(crate) description: &'a str,
    /// It has the whole width of a page
    pub(crate) is_broad: bool,
    /// Its figures
    pub(crate) table: Grid,
}

impl Picture<'_> {
    /// The picture as HTML; nothing if the page has no room for another picture.
    pub(crate) fn markup(&self, ids: &mut Ids, drawn: &dyn Fn(Frame) -> (Vec<Shape>, (f64, f64))) -> Markup {
        if !ids.has_room() {
            return html! {};
        }
        ids.pictures += 1;
        let mut svg = |frame: Frame, class: &str| {
            let (shapes, size) = drawn(frame);
            PreEscaped(embed(&shapes, size, class, &ids.next(), (self.title, self.description)))
        };
        let (wide, narrow) = (svg(if self.is_broad { BROAD } else { WIDE }, "wide"), svg(NARROW, "narrow"));
        html! {
            figure {
                figcaption {
                    strong { (self.title) }
                    span.small { (self.description) }
                }
                div.plot { (wide) (narrow) }
                @if !self.table.rows.is_empty() {
                    details { summary { "The figures as a table" } (self.table.markup(ids)) }
                }
            }
        }
    }
}

/// Names and facts, one beside the other.
pub(crate) fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, fact) in facts {
                div { dt { (name) } dd { (fact) } }
            }
        }
    }
}

/// Facts that are given in place.
pub(crate) fn named(all: &[(&str, String)]) -> Markup {
    let owned: Vec<(String, String)> = all
        .iter()
        .filter(|(_, fact)| !fact.is_empty())
        .map(|(name, fact)| ((*name).to_owned(), fact.clone()))
        .collect();
    facts(&owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_escapes_and_says_what_it_leaves_out() {
        let mut grid = Grid::new("<c>", &["name", "n #"]);
        for at in 0..5 {
            grid.rows.push(vec![Cell::code("<script>"), Cell::count(at)]);
        }
        let text = grid.markup(&mut Ids::new(3, 1)).into_string();
        assert!(
            !text.contains("<script>") && text.contains("&lt;script&gt;") && text.contains("&lt;c&gt;"),
            "{text}"
        );
        assert_eq!(text.matches("<tr>").count(), 4);
        assert!(text.contains("2 more rows are left out"), "{text}");
        assert!(text.contains("<td class=\"n\" data-v=\"2\">2</td>"), "{text}");
    }

    #[test]
    fn there_are_no_more_pictures_than_there_is_room_for() {
        let mut ids = Ids::new(9, 1);
        let picture = Picture { title: "t", description: "d", is_broad: false, table: Grid::new("", &[]) };
        let mut draw = || picture.markup(&mut ids, &|frame| (vec![], (frame.width, 9.0))).into_string();
        let first = draw();
        assert_eq!(first.matches("<svg").count(), 2);
        assert!(first.contains("<title id=") && first.contains("role=\"img\""), "{first}");
        assert_eq!(draw(), "");
    }
}
