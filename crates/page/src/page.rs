//! The page: a head with what was run and where, a section for each result, and the files inside.
//!
//! A page has at most [`BYTES_MAX`]. It is made anew with less in it until it fits, in this order:
//! the results' JSON without the outputs of runs, no JSON, fewer pictures and rows.
//!
//! 1. The page loads nothing: styles and script are in it, and its policy forbids all else. The
//!    policy names the script by its hash, so no other script runs, whatever a result contains.
//! 2. JSON stands in a `script` element as data. Each `<` in it is written as `\u003c`, so no
//!    string of it can end the element.

use crate::html::{Cell, Grid, Ids};
use crate::input::{self, Fault, Kind};
use crate::show::{bench, compare, doctor, pairs, profile, stats};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// The most bytes of a page.
pub const BYTES_MAX: usize = 1_000_000;
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The SHA-256 of the script, in Base64.
const SCRIPT_HASH: &str = include_str!("page.js.sha256");

/// A result with its name, as its file is called.
#[derive(Clone, Debug)]
pub struct Named {
    name: String,
    kind: Kind,
    json: Value,
}

impl Named {
    /// Reads the JSON of a result.
    ///
    /// ```
    /// let result = page::Named::read("a.json", r#"{"schema": "manx-stats", "version": 1}"#).unwrap();
    /// assert!(page::page(&[result], &page::Options::default()).unwrap().starts_with("<!DOCTYPE html>"));
    /// assert!(page::Named::read("a.json", "{}").unwrap_err().what.contains("no `schema`"));
    /// ```
    ///
    /// # Errors
    /// If it is no result of Manx.
    pub fn read(name: &str, text: &str) -> Result<Named, Fault> {
        let (kind, json) = input::read(text)?;
        Ok(Named { name: input::cleaned(name), kind, json })
    }
}

/// How a page is made.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The title, in place of one from the results
    pub title: Option<String>,
    /// The first result is before, the others are after
    pub compare: bool,
}

/// How much goes into a page.
struct Room {
    json: Json,
    rows_max: usize,
    pictures_max: usize,
}

/// How much of the JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Json {
    Whole,
    WithoutOutputs,
    None,
}

/// From all to little.
const ROOMS: [Room; 6] = [
    Room { json: Json::Whole, rows_max: 500, pictures_max: 60 },
    Room { json: Json::WithoutOutputs, rows_max: 500, pictures_max: 60 },
    Room { json: Json::None, rows_max: 500, pictures_max: 60 },
    Room { json: Json::None, rows_max: 150, pictures_max: 24 },
    Room { json: Json::None, rows_max: 40, pictures_max: 8 },
    Room { json: Json::None, rows_max: 8, pictures_max: 2 },
];

/// The page of some results.
///
/// # Errors
/// If they cannot be compared, or are too large for a page.
pub fn page(results: &[Named], options: &Options) -> Result<String, Fault> {
    if options.compare {
        comparable(results)?;
    }
    let pages = ROOMS.iter().map(|room| written(results, options, room).into_string());
    pages.into_iter().find(|page| page.len() <= BYTES_MAX).ok_or_else(|| Fault {
        what: format!("the results are too large: their page would have more than {BYTES_MAX} bytes"),
        help: "give fewer files".into(),
    })
}

fn comparable(results: &[Named]) -> Result<(), Fault> {
    let [first, others @ ..] = results else { return Ok(()) };
    if others.is_empty() {
        return Err(Fault {
            what: "--compare needs two files or more".into(),
            help: "give the result before the change first, and those after it behind it".into(),
        });
    }
    let command = first.kind.command();
    match others.iter().find(|other| other.kind.command() != command) {
        None => Ok(()),
        Some(other) => Err(Fault {
            what: format!(
                "--compare needs results of one kind: {} is of `{command}`, {} of `{}`",
                first.name,
                other.name,
                other.kind.command()
            ),
            help: "without --compare, one page takes results of all kinds".into(),
        }),
    }
}

/// What a result measured or watched, in a few words.
fn subject(result: &Named) -> String {
    match &result.kind {
        Kind::Bench(report) => format!("bench {}", report.bench),
        Kind::Profile(profile) => {
            let program = profile.sweep.program.first().map_or("", String::as_str);
            format!("profile of {}", program.rsplit('/').next().unwrap_or(program))
        }
        Kind::Doctor(reports) => match reports.as_slice() {
            [only] => format!("doctor on {}", only.title()),
            many => format!("doctor on {} processes", many.len()),
        },
        Kind::Pairs(pairs) => format!("what manx run changes in {}", pairs.as_it_is.evidence.name),
        Kind::Stats(all) => match all.as_slice() {
            [only] => format!("stats of {}, process {}", only.program, only.pid),
            many => format!("stats of {} processes", many.len()),
        },
    }
}

fn title(results: &[Named], options: &Options) -> String {
    options.title.clone().unwrap_or_else(|| match results {
        [] => "nothing".into(),
        [only] => subject(only),
        [first, ..] if options.compare => format!("{}, before and after", subject(first)),
        [first, rest @ ..] => format!("{} and {} more", subject(first), rest.len()),
    })
}

fn written(results: &[Named], options: &Options, room: &Room) -> Markup {
    let title = format!("Manx: {}", title(results, options));
    let mut ids = Ids::new(room.rows_max, room.pictures_max);
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        SCRIPT_HASH.trim()
    );
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content="manx report";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "To the results" }
                header {
                    h1 { (title) }
                    div #tools {}
                    @if results.len() > 1 || options.compare {
                        nav aria-label="Results" {
                            @if options.compare { a href="#compare" { "Comparison" } }
                            @for (at, result) in results.iter().enumerate() {
                                a href=(format!("#r{at}")) { (result.name) }
                            }
                        }
                    }
                }
                main #main tabindex="-1" {
                    @if results.len() > 1 { section { h2 { "What was run, and where" } (side_by_side(results).markup(&mut ids)) } }
                    @if let (true, [before, after @ ..]) = (options.compare, results) {
                        section #compare {
                            @for other in after {
                                (compare::show((&before.name, &before.kind), (&other.name, &other.kind), &mut ids))
                            }
                        }
                    }
                    @for (at, result) in results.iter().enumerate() {
                        section #(format!("r{at}")) {
                            h2 { (result.name) ": " (subject(result)) }
                            @match &result.kind {
                                Kind::Bench(report) => (bench::show(report, &mut ids)),
                                Kind::Profile(profile) => (profile::show(profile, &mut ids)),
                                Kind::Doctor(reports) => (doctor::show(reports, &mut ids)),
                                Kind::Pairs(both) => (pairs::show(both, &mut ids)),
                                Kind::Stats(all) => (stats::show(all, &mut ids)),
                            }
                        }
                    }
                }
                footer {
                    p { "Written by " code { "manx report" } " " (env!("CARGO_PKG_VERSION")) ". The page loads nothing from elsewhere." }
                    (data(results, room.json))
                }
                div #tip role="status" aria-live="polite" {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// The facts of all results, a column for each.
fn side_by_side(results: &[Named]) -> Grid {
    let mut heads = vec!["".to_owned()];
    heads.extend(results.iter().map(|result| result.name.clone()));
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let facts: Vec<Vec<(String, String)>> = results.iter().map(facts).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut grid = Grid::new("Results side by side", &heads);
    grid.heads[0].name = "fact".into();
    for head in &mut grid.heads[1..] {
        head.is_number = false;
    }
    for name in names {
        let mut row = vec![Cell::text(name)];
        for facts in &facts {
            let fact = facts.iter().find(|(own, _)| own == name);
            row.push(Cell::text(fact.map_or("", |(_, fact)| fact.as_str())));
        }
        grid.rows.push(row);
    }
    grid
}

fn facts(result: &Named) -> Vec<(String, String)> {
    let mut facts = vec![
        ("result of".to_owned(), result.kind.command().to_owned()),
        ("subject".to_owned(), subject(result)),
    ];
    let machine = match &result.kind {
        Kind::Bench(report) => Some(&report.machine),
        Kind::Profile(profile) => Some(&profile.machine),
        Kind::Doctor(reports) => reports.first().map(|report| &report.machine),
        Kind::Pairs(pairs) => Some(&pairs.as_it_is.machine),
        Kind::Stats(all) => all.first().map(|stats| &stats.machine),
    };
    facts.extend(machine.into_iter().flat_map(|machine| machine.facts()));
    facts
}

/// The JSON of the results, for the script's download buttons.
fn data(results: &[Named], json: Json) -> Markup {
    if json == Json::None {
        return html! { p { "The results' JSON is not in this page: it is too large." } };
    }
    html! {
        @if json == Json::WithoutOutputs {
            p { "The JSON in this page is without the outputs of single runs: they are too large." }
        }
        @for result in results {
            @let text = match json {
                Json::WithoutOutputs => without_outputs(&result.json).to_string(),
                _ => result.json.to_string(),
            };
            script type="application/json" data-file=(result.name) {
                (PreEscaped(text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028")))
            }
        }
    }
}

fn without_outputs(json: &Value) -> Value {
    let mut json = json.clone();
    if let Some(runs) = json.get_mut("runs").and_then(Value::as_array_mut) {
        for run in runs.iter_mut().filter_map(Value::as_object_mut) {
            run.remove("output");
        }
    }
    json
}
