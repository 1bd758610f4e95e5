//! A result of `manx doctor -- PROGRAM`: what ails the program, and what `manx run` changes.
//!
//! A change is better or worse only if its 95 % interval lies on one side of no change, and if less
//! of the figure is better at all: CPU time may be spent well.

use super::doctor;
use super::words::number;
use crate::chart::forest;
use crate::chart::svg::{BAD, GOOD, MUTED};
use crate::html::{Cell, Grid, Ids, Look, Picture};
use crate::input::doctor::{Change, Pairs};
use maud::{Markup, html};

/// The section.
pub(crate) fn show(pairs: &Pairs, ids: &mut Ids) -> Markup {
    let looks: Vec<Look> = pairs.changes.iter().map(look).collect();
    let count = |look: Look| looks.iter().filter(|one| **one == look).count();
    let badges = [
        (count(Look::Good), "is-good", "better"),
        (count(Look::Bad), "is-bad", "worse"),
        (count(Look::Plain), "is-open", "unclear or neither"),
    ];
    html! {
        h3 { "Under manx run" }
        p.badges {
            "Figures: "
            @for (count, class, words) in badges.into_iter().filter(|(count, ..)| *count > 0) {
                span class=(class) { (count) " " (words) } " "
            }
        }
        @for note in &pairs.notes { p.small { (note) } }
        (ratios(&pairs.changes, ids))
        (table(&pairs.changes).markup(ids))
        h3 { "As it is" }
        (doctor::show(std::slice::from_ref(&pairs.as_it_is), ids))
    }
}

/// Whether the change is good, bad, or neither.
fn look(change: &Change) -> Look {
    let is_cost = change.better.as_deref() == Some("less")
        || change.figure.starts_with("wall")
        || change.figure.starts_with("waits")
        || change.figure.starts_with("lost to");
    let is_gain = change.better.as_deref() == Some("more");
    let none = if change.kind == "ratio" { 1.0 } else { 0.0 };
    match change.low.zip(change.high) {
        Some((_, high)) if high < none && is_cost => Look::Good,
        Some((_, high)) if high < none && is_gain => Look::Bad,
        Some((low, _)) if low > none && is_cost => Look::Bad,
        Some((low, _)) if low > none && is_gain => Look::Good,
        _ => Look::Plain,
    }
}

fn ratios(changes: &[Change], ids: &mut Ids) -> Markup {
    let row = |change: &Change| {
        let ratio = change.change.filter(|ratio| change.kind == "ratio" && *ratio > 0.0)?;
        let colour = match look(change) {
            Look::Good => GOOD,
            Look::Bad => BAD,
            _ => MUTED,
        };
        let interval = change.low.zip(change.high).filter(|(low, _)| *low > 0.0);
        Some(forest::Row { name: change.figure.clone(), ratio, interval, colour })
    };
    let rows: Vec<forest::Row> = changes.iter().filter_map(row).collect();
    if rows.is_empty() {
        return html! {};
    }
    let description = "The median over the pairs and its 95 % interval; 1 is no change.";
    let table = Grid::new("", &[]);
    html! {
        div.pictures.one {
            (Picture { title: "Under manx run over as it is", description, is_broad: false, table }
                .markup(ids, &|frame| forest::drawn(&rows, "manx run / as it is", frame)))
        }
    }
}

fn table(changes: &[Change]) -> Grid {
    let heads = ["figure", "unit", "as it is #", "manx run #", "change #", "95 % interval", "pairs #"];
    let mut table = Grid::new("What changes", &heads);
    for change in changes {
        let of = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let shown = |value: f64| match change.kind.as_str() {
            "ratio" => format!("{}×", number(value)),
            _ if value > 0.0 => format!("+{}", number(value)),
            _ => number(value),
        };
        let interval = change.low.zip(change.high);
        let interval =
            interval.map_or("-".into(), |(low, high)| format!("{} to {}", shown(low), shown(high)));
        table.rows.push(vec![
            Cell::text(change.figure.as_str()),
            Cell::text(change.unit.as_str()),
            Cell::number(of(change.as_it_is), number(of(change.as_it_is))),
            Cell::number(of(change.manx_run), number(of(change.manx_run))),
            Cell::number(of(change.change), shown(of(change.change))).looks(look(change)),
            Cell::text(interval),
            Cell::count(change.pairs),
        ]);
    }
    table
}
