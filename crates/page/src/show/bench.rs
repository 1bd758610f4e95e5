//! A result of `manx bench`: verdicts, ratios, tables, percentiles, and latencies round by round.

use super::curves::{colour, line, percentiles, times};
use super::words::{date, is_more_better, number, throughput, time, value_of};
use crate::chart::svg::{BAD, GOOD, MUTED};
use crate::chart::{Chart, Panel, Series, forest};
use crate::figure::interval;
use crate::html::{Cell, Grid, Head, Ids, Look, Picture, facts, named};
use crate::input::bench::{Ratio, Report, Table};
use crate::input::latencies::Latencies;
use maud::{Markup, html};

/// The most rows of one picture of ratios.
const RATIOS: usize = 40;
/// The most cases with pictures of their rounds.
const ROUNDS_CASES: usize = 8;
/// The fewest rounds, or seconds, that are a course of time.
const ROUNDS_MIN: usize = 3;

/// The section.
pub(crate) fn show(report: &Report, ids: &mut Ids) -> Markup {
    let yes = |is: bool, text: &str| if is { text.to_owned() } else { String::new() };
    let wall = report.wall_s.map_or(String::new(), |s| time(s.max(0.0) * 1e9));
    html! {
        (named(&[
            ("bench", report.bench.clone()),
            ("Manx", report.manx.clone()),
            ("began", date(report.started_unix_s)),
            ("took", wall),
            ("seed", report.seed.map_or(String::new(), |seed| seed.to_string())),
        ]))
        (facts(&report.machine.facts()))
        @if report.quick || report.interrupted {
            p.warn {
                (yes(report.quick, "A smoke check, not a measurement: its figures mean little. "))
                (yes(report.interrupted, "It was ended early: this is what it measured until then."))
            }
        }
        (targets(report, ids))
        (ratios(&report.ratios, ids))
        (latencies(report, ids))
        (over_time(report, ids))
        @if !report.tables.is_empty() {
            h3 { "Tables" }
            @for table in &report.tables { (grid(table).markup(ids)) }
        }
        @if !report.notes.is_empty() {
            h3 { "Notes" }
            ul { @for note in &report.notes { li { (note) } } }
        }
    }
}

/// The words of a verdict on a target, and how they look.
pub(crate) fn outcome(verdict: &str) -> (&str, Look) {
    match verdict {
        "met" => ("met", Look::Good),
        "falls-short" => ("falls short", Look::Bad),
        "open" | "not-resolvable" => ("undecided", Look::Open),
        "not-measured" => ("no verdict", Look::Open),
        other => (other, Look::Open),
    }
}

fn targets(report: &Report, ids: &mut Ids) -> Markup {
    if report.targets.is_empty() {
        return html! { h3 { "Targets" } p { "None are set for this bench." } };
    }
    let heads =
        ["target", "verdict", "measured #", "unit", "95 % interval", "to reach", "pairs #", "because"];
    let mut table = Grid::new("Targets", &heads);
    for target in &report.targets {
        let (words, look) = outcome(&target.verdict);
        let measured = target.measured.unwrap_or(f64::NAN);
        table.rows.push(vec![
            Cell::text(target.name.as_str()),
            Cell::text(words).looks(look),
            Cell::number(measured, number(measured)),
            Cell::text(target.unit.as_str()),
            Cell::text(interval(target.interval)),
            Cell::text(target.to_reach.as_str()),
            target.pairs.map_or(Cell::text("-"), Cell::count),
            Cell::text(target.reason.clone().unwrap_or_default()),
        ]);
    }
    let mut counts: Vec<(&str, Look, usize)> = Vec::new();
    for target in &report.targets {
        let (words, look) = outcome(&target.verdict);
        match counts.iter_mut().find(|(other, ..)| *other == words) {
            Some((.., count)) => *count += 1,
            None => counts.push((words, look, 1)),
        }
    }
    html! {
        h3 { "Targets" }
        p.badges {
            @for (words, look, count) in counts {
                span class=(badge(look)) { (count) " " (words) } " "
            }
        }
        (table.markup(ids))
    }
}

fn badge(look: Look) -> &'static str {
    match look {
        Look::Good => "is-good",
        Look::Bad => "is-bad",
        _ => "is-open",
    }
}

/// The colour of a ratio: by what it means, if its interval lies on one side of 1.
pub(crate) fn meaning(figure: &str, ratio: f64, interval: Option<(f64, f64)>) -> u32 {
    let (low, high) = interval.unwrap_or((ratio, ratio));
    match is_more_better(figure) {
        Some(more) if low > 1.0 => {
            if more {
                GOOD
            } else {
                BAD
            }
        }
        Some(more) if high < 1.0 => {
            if more {
                BAD
            } else {
                GOOD
            }
        }
        _ => MUTED,
    }
}

fn ratios(all: &[Ratio], ids: &mut Ids) -> Markup {
    let mut measures: Vec<&str> = Vec::new();
    for ratio in all {
        if !measures.contains(&ratio.measure.as_str()) {
            measures.push(&ratio.measure);
        }
    }
    if measures.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Ratios" }
        div.pictures {
            @for measure in measures {
                (ratio_picture(measure, &all.iter().filter(|ratio| ratio.measure == measure).collect::<Vec<_>>(), ids))
            }
        }
    }
}

fn ratio_picture(measure: &str, all: &[&Ratio], ids: &mut Ids) -> Markup {
    let mut table = Grid::new(measure, &["case", "of", "over", "ratio #", "from #", "to #", "pairs #"]);
    let mut rows = Vec::new();
    for ratio in all {
        let cell =
            |value: Option<f64>| Cell::number(value.unwrap_or(f64::NAN), number(value.unwrap_or(f64::NAN)));
        table.rows.push(vec![
            Cell::text(ratio.case.as_str()),
            Cell::text(ratio.over.as_str()),
            Cell::text(ratio.under.as_str()),
            cell(ratio.ratio),
            cell(ratio.low),
            cell(ratio.high),
            Cell::count(ratio.pairs.len() as u64),
        ]);
        let Some(value) = ratio.ratio.filter(|value| value.is_finite() && *value > 0.0) else { continue };
        let interval = ratio.low.zip(ratio.high);
        rows.push(forest::Row {
            name: format!("{}: {} / {}", ratio.case, ratio.over, ratio.under),
            ratio: value,
            interval,
            colour: meaning(measure, value, interval),
        });
    }
    if rows.is_empty() {
        return table.markup(ids);
    }
    rows.truncate(RATIOS);
    let is_better = match is_more_better(measure) {
        Some(true) => " More is better.",
        Some(false) => " Less is better.",
        None => "",
    };
    let description = format!(
        "Each row: the median of the ratios of pairs, and its 95 % interval if there are five pairs.{is_better}"
    );
    let title = format!("Ratios of {measure}");
    Picture { title: &title, description: &description, is_broad: false, table }
        .markup(ids, &|frame| forest::drawn(&rows, "ratio", frame))
}

fn latencies(report: &Report, ids: &mut Ids) -> Markup {
    let mut pictures = Vec::new();
    let mut left_out = 0;
    for case in report.cases() {
        // A picture for each name: of all threads, of classes of threads.
        let mut by_name: Vec<(String, Vec<(String, Latencies)>)> = Vec::new();
        for version in report.versions(case) {
            for (name, one) in report.latencies(case, version) {
                let named = (version.to_owned(), one);
                match by_name.iter_mut().find(|(other, _)| *other == name) {
                    Some((_, all)) => all.push(named),
                    None => by_name.push((name, vec![named])),
                }
            }
        }
        for (name, all) in by_name {
            let title =
                if name.is_empty() || name == "all" { case.to_owned() } else { format!("{case}, {name}") };
            match ids.has_room() {
                true => pictures.push(percentiles(&title, &all, None, ids)),
                false => left_out += 1,
            }
        }
    }
    html! {
        @if !pictures.is_empty() {
            h3 { "Percentiles" }
            div.pictures { @for picture in pictures { (picture) } }
            @if left_out > 0 { p.small { (left_out) " more pictures are left out: the page would be too large." } }
        }
    }
}

/// The figures whose course is shown: of each end the first that a case has.
const COURSES: [(&[&str], &str); 3] = [
    (&["p99_ns", "all_p99_ns", "tail_ns", "p50_ns", "wall_ns"], "p99"),
    (&["max_ns", "all_max_ns"], "max"),
    (&["throughput_per_s", "ops_per_s", "epochs_per_s"], "throughput"),
];

fn over_time(report: &Report, ids: &mut Ids) -> Markup {
    let mut pictures = Vec::new();
    for case in report.cases() {
        if pictures.len() >= ROUNDS_CASES || !ids.has_room() {
            break;
        }
        pictures.extend(rounds(report, case, ids));
        pictures.extend(seconds(report, case, ids));
    }
    html! {
        @if !pictures.is_empty() {
            h3 { "Over time" }
            div.pictures { @for picture in pictures { (picture) } }
        }
    }
}

fn whole(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { String::new() }
}

/// A figure in each round.
fn rounds(report: &Report, case: &str, ids: &mut Ids) -> Option<Markup> {
    let (figures, versions) = (report.figures(case), report.versions(case));
    let mut panels = Vec::new();
    let mut table =
        Grid::new(format!("{case}, round by round"), &["figure", "version", "round #", "value #"]);
    for (names, _) in COURSES {
        let Some(figure) = names.iter().find(|name| figures.contains(name)) else { continue };
        let of = |(at, version): (usize, &&str)| {
            let runs = report.runs_of(case, version);
            let points = runs.filter_map(|run| Some((run.round as f64 + 1.0, run.figure(figure)?)));
            let mut points: Vec<(f64, f64)> = points.collect();
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            Series { dots: true, ..line(version, colour(at), points) }
        };
        let series: Vec<Series> = versions.iter().enumerate().take(8).map(of).collect();
        if series.iter().all(|series| series.points.len() < ROUNDS_MIN) {
            continue;
        }
        for series in &series {
            for (round, value) in &series.points {
                let written = super::words::figure(figure, *value);
                table.rows.push(vec![
                    Cell::text(*figure),
                    Cell::text(series.name.as_str()),
                    Cell::number(*round, whole(*round)),
                    Cell::number(*value, written),
                ]);
            }
        }
        panels.push(match figure.ends_with("_per_s") {
            true => Panel { name: (*figure).into(), logarithmic: false, label: throughput, series },
            false => times(figure, series),
        });
    }
    if panels.is_empty() {
        return None;
    }
    let chart = Chart { title: case.into(), name: "round".into(), logarithmic: false, label: whole, panels };
    let title = format!("{case}, round by round");
    let description = "Each version's figures in each round, in the order of the rounds.";
    Some(
        Picture { title: &title, description, is_broad: false, table }
            .markup(ids, &|frame| chart.drawn(frame)),
    )
}

/// Percentiles of each second of the last run of each version.
fn seconds(report: &Report, case: &str, ids: &mut Ids) -> Option<Markup> {
    let (mut tails, mut longest) = (Vec::new(), Vec::new());
    let mut table =
        Grid::new(format!("{case}, second by second"), &["version", "second #", "p99 #", "max #"]);
    for (at, version) in report.versions(case).into_iter().enumerate().take(8) {
        let Some(run) = report.runs_of(case, version).last() else { continue };
        let seconds = run.seconds();
        if seconds.len() < ROUNDS_MIN {
            continue;
        }
        let points = |of: fn(&Latencies) -> u64| {
            seconds
                .iter()
                .enumerate()
                .map(|(second, one)| (second as f64 + 1.0, of(one) as f64))
                .collect::<Vec<_>>()
        };
        let (p99, max) = (points(|one| one.quantile_ns(0.99)), points(Latencies::max_ns));
        for (tail, most) in p99.iter().zip(&max) {
            table.rows.push(vec![
                Cell::text(version),
                Cell::number(tail.0, whole(tail.0)),
                Cell::number(tail.1, time(tail.1)),
                Cell::number(most.1, time(most.1)),
            ]);
        }
        tails.push(line(version, colour(at), p99));
        longest.push(line(version, colour(at), max));
    }
    if tails.is_empty() {
        return None;
    }
    let panels = vec![times("p99", tails), times("max", longest)];
    let chart = Chart { title: case.into(), name: "second".into(), logarithmic: false, label: whole, panels };
    let title = format!("{case}, second by second");
    let description = "The 99th percentile and the longest operation of each second of the last round.";
    Some(
        Picture { title: &title, description, is_broad: false, table }
            .markup(ids, &|frame| chart.drawn(frame)),
    )
}

/// A table of the bench. Words that stand only in the first of their rows are put into all, so that
/// the rows can be sorted.
fn grid(table: &Table) -> Grid {
    let head = |column: &crate::input::bench::Column| Head {
        name: format!("{} {}", column.name, column.unit).trim().to_owned(),
        is_number: column.number,
    };
    let leading = table.columns.iter().take_while(|column| !column.number).count();
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for row in &table.rows {
        let mut cells: Vec<Cell> = Vec::new();
        let mut is_same = true;
        for (at, column) in table.columns.iter().enumerate() {
            let text = row.get(at).map_or("", String::as_str);
            let above = rows.last().and_then(|above| above.get(at)).map(|cell| cell.text.clone());
            let cell = match above {
                Some(above) if text.is_empty() && at < leading && is_same => {
                    Cell::text(above).looks(Look::Again)
                }
                above => {
                    is_same &= above.as_deref() == Some(text);
                    match column.number {
                        true => Cell::number(value_of(text).unwrap_or(f64::NAN), text),
                        false => Cell::text(text),
                    }
                }
            };
            cells.push(cell);
        }
        rows.push(cells);
    }
    Grid { caption: table.title.clone(), heads: table.columns.iter().map(head).collect(), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_stands_once_is_in_each_of_its_rows() {
        let table: Table = serde_json::from_str(
            r#"{"title": "t", "columns": [{"name": "case"}, {"name": "version"}, {"name": "p99", "unit": "ms", "number": true}],
                "rows": [["c", "a", "1.5 ms"], ["", "b", "2"], ["d", "b", ""], ["", ""]]}"#,
        )
        .unwrap();
        let grid = grid(&table);
        let texts: Vec<Vec<&str>> =
            grid.rows.iter().map(|row| row.iter().map(|cell| cell.text.as_str()).collect()).collect();
        assert_eq!(texts, [["c", "a", "1.5 ms"], ["c", "b", "2"], ["d", "b", ""], ["d", "b", ""]]);
        assert_eq!((grid.rows[0][2].value, grid.rows[2][2].value), (Some(1.5e6), None));
        assert_eq!(grid.heads[2].name, "p99 ms");
    }

    #[test]
    fn a_ratio_means_something_if_its_interval_is_on_one_side() {
        assert_eq!(meaning("p99_ns", 0.5, Some((0.4, 0.6))), GOOD);
        assert_eq!(meaning("ops_per_s", 0.5, None), BAD);
        assert_eq!(meaning("ops_per_s", 1.2, Some((0.9, 1.4))), MUTED);
        assert_eq!(meaning("other", 2.0, None), MUTED);
    }
}
