//! The list of processes: a line on the host, one on the list, the heads, the rows, and the keys.

use crate::processes::cells::percent;
use crate::processes::row::{Host, Row};
use crate::top::columns::{COLUMNS, Column, fit, specs};
use crate::top::paper::{Paper, Weight};
use crate::top::state::State;

/// Lines above the rows.
const ABOVE: usize = 3;

/// Draws it.
pub fn draw(state: &mut State, paper: &mut Paper) {
    let height = paper.height().saturating_sub(ABOVE + 1);
    let (first, selected) = (state.fit(height), state.selected());
    let host = format!("manx top  {}  every {:?}", host(&state.snapshot.host), state.interval);
    paper.line(0, &host, Weight::Title);
    let paused = if state.paused { "PAUSED  " } else { "" };
    paper.line(1, &format!("{paused}{}", summary(state)), Weight::Usual);

    let specs = specs(state.sort);
    // One place for the sign of the selected row.
    let placed = fit(&specs, paper.width().saturating_sub(1));
    let sorted = COLUMNS.iter().position(|&column| column == state.sort);
    paper.heads(1, 2, &specs, &placed, sorted);
    for (index, row) in state.rows().enumerate().skip(first).take(height) {
        let y = ABOVE + index - first;
        let is_selected = index == selected;
        if is_selected {
            paper.put(0, y, ">", 1, Weight::Usual);
        }
        paper.row(1, y, &specs, &placed, |column| cell(COLUMNS[column], row));
        if is_selected {
            paper.mark(y, Weight::Selected);
        }
    }
    if state.rows().len() == 0 {
        paper.put(1, ABOVE, empty(state), paper.width(), Weight::Usual);
    }
    let keys = if state.writing {
        format!("/{}_  enter keeps the filter, esc removes it", state.filter)
    } else {
        let all = if state.only_manx { "a all" } else { "a only Manx" };
        format!("q quit  h help  enter open  s sort  r reverse  {all}  / filter  p pause")
    };
    paper.line(paper.height().saturating_sub(1), &keys, Weight::Heads);
    paper.mark(paper.height().saturating_sub(1), Weight::Heads);
}

fn cell(column: Column, row: &Row) -> (String, Weight) {
    let weight = match column.alarm(row) {
        0 => Weight::Usual,
        1 => Weight::Remarkable,
        _ => Weight::Bad,
    };
    (column.cell(row), weight)
}

fn empty(state: &State) -> &'static str {
    if state.snapshot.processes.is_empty() {
        "no process can be seen"
    } else if state.filter.is_empty() {
        "no process runs under Manx: `manx run --stats -- PROGRAM` starts one; a shows all"
    } else {
        "no process has this text in its name or command"
    }
}

/// The host in a line.
pub fn host(host: &Host) -> String {
    let cpus =
        host.cpus.map_or("? CPUs".into(), |cpus| format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" }));
    let number = |number: Option<f64>| number.map_or("-".into(), |number| format!("{number:.1}"));
    format!(
        "{cpus}: {} busy, {} stolen, {} runnable, stalled {} %",
        number(host.busy_cpus),
        number(host.stolen_cpus),
        host.runnable.map_or("-".into(), |threads| threads.to_string()),
        percent(host.stalled),
    )
}

/// What is listed, in a line.
pub fn summary(state: &State) -> String {
    let processes = &state.snapshot.processes;
    let under_manx = processes.iter().filter(|row| row.manx.is_on()).count();
    let order = if state.reversed { ", reversed" } else { "" };
    let noun = if processes.len() == 1 { "process" } else { "processes" };
    let mut text = format!(
        "{} {noun}, {under_manx} under Manx, sorted by {}{order}",
        processes.len(),
        state.sort.spec().head
    );
    if state.only_manx {
        text += ", only Manx";
    }
    if !state.filter.is_empty() {
        text += &format!(", with \"{}\"", state.filter);
    }
    text
}
