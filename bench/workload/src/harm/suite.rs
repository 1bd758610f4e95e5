//! The rows of the suite: a file in TOML, whose head says what each key means.
//!
//! A row with several loads is several rows. Nothing is run here.

use crate::engines::{self, Subject};
use crate::error::{Error, reason};
use crate::machine;
use crate::servers;
use regex::Regex;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// The built-in suite.
const BUILT_IN: &str = include_str!("../../harm/suite.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    row: Vec<Entry>,
}

/// A row of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Entry {
    name: String,
    words: String,
    needs: Vec<String>,
    get: String,
    prepare: String,
    command: String,
    figure: Option<String>,
    better: Option<Better>,
    threads: Option<usize>,
    loads: Vec<Load>,
    quick: bool,
    server: Option<String>,
    engine: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Better {
    Higher,
    Lower,
}

/// The numbers of threads, copies and neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Threads of each copy
    pub threads: usize,
    /// Copies side by side
    #[serde(default = "one")]
    pub copies: usize,
    /// Busy threads beside them
    #[serde(default)]
    pub neighbours: usize,
    /// A word that the command knows
    #[serde(default)]
    pub with: String,
}

fn one() -> usize {
    1
}

impl Load {
    /// The text behind the row's name.
    fn name(&self) -> String {
        let threads = format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" });
        match (self.copies, self.neighbours) {
            _ if !self.with.is_empty() => self.with.clone(),
            (1, 0) => threads,
            (2, 0) => "pair".into(),
            (copies, 0) => format!("{copies} copies"),
            (_, busy) => format!("{threads} beside {busy}"),
        }
    }
}

/// Where a row's figure of work is found.
#[derive(Clone, Debug)]
pub enum Figure {
    /// The time that the command takes
    Wall,
    /// The sum of the numbers that this finds
    Rate(Regex),
    /// The sum of the times that this finds
    Time(Regex),
}

/// The program or script of a row.
#[derive(Clone, Debug)]
pub enum What {
    /// A script that prepares, one that runs the program, and its figure
    Script {
        /// Runs once
        prepare: String,
        /// Runs in each round
        command: String,
        /// The figure that the command writes
        figure: Figure,
    },
    /// A case of `manx bench servers`
    Server(&'static servers::Case),
    /// A program of `manx bench engines`
    Engine(&'static Subject),
}

/// A program under a load.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name in tables and for `--only`
    pub name: String,
    /// The program and its load in words
    pub words: String,
    /// Programs that it needs
    needs: Vec<String>,
    /// The command that installs its needs
    pub get: String,
    /// The program or script that it runs
    pub what: What,
    /// Its load
    pub load: Load,
    /// Part of the smoke check
    pub quick: bool,
}

impl Row {
    /// # Errors
    /// [`Error::Missing`] if a program that it needs is not installed.
    pub fn installed(&self) -> Result<(), Error> {
        match self.needs.iter().find(|program| machine::program(program).is_none()) {
            Some(program) => Err(Error::missing(format!("{program} is not installed"), &self.get)),
            None => Ok(()),
        }
    }
}

/// The rows of the built-in suite.
///
/// # Panics
/// Never: a test reads them.
pub fn built_in() -> Vec<Row> {
    parse(BUILT_IN).expect("the built-in suite is right")
}

/// Reads a suite.
///
/// # Errors
/// It cannot be read, or is no suite.
pub fn read(path: &Path) -> Result<Vec<Row>, Error> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::request(format!("--suite {name}: {}", reason(&error)), "name a file that can be read")
    })?;
    parse(&text).map_err(|why| {
        let help = "the head of bench/workload/harm/suite.toml says what a suite has";
        Error::request(format!("--suite {name}: {why}"), help)
    })
}

/// The rows of a suite, or why it is none.
///
/// # Errors
/// In words that name the line or the row.
pub(super) fn parse(text: &str) -> Result<Vec<Row>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let (mut rows, mut names) = (Vec::new(), BTreeSet::new());
    for (at, entry) in file.row.into_iter().enumerate() {
        let of = |why: String| format!("row {} ('{}'): {why}", at + 1, entry.name);
        for row in entry.clone().rows().map_err(of)? {
            if !names.insert(row.name.clone()) {
                return Err(of(format!("there are two rows '{}'", row.name)));
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Entry {
    fn rows(self) -> Result<Vec<Row>, String> {
        if self.name.is_empty() {
            return Err("it has no name".into());
        }
        let single =
            Load { threads: self.threads.unwrap_or(0), copies: 1, neighbours: 0, with: String::new() };
        let loads = match (self.threads, self.loads.is_empty()) {
            (Some(_), true) => vec![(self.name.clone(), single)],
            (None, false) => self
                .loads
                .iter()
                .map(|load| (format!("{}, {}", self.name, load.name()), load.clone()))
                .collect(),
            _ => return Err("it has either `threads` or `loads`".into()),
        };
        if let Some((name, _)) = loads.iter().find(|(_, load)| load.threads == 0 || load.copies == 0) {
            return Err(format!("'{name}' has no thread, or no copy"));
        }
        let what = self.what()?;
        let row = |(name, load)| Row {
            name,
            words: self.words.clone(),
            needs: self.needs.clone(),
            get: self.get.clone(),
            what: what.clone(),
            load,
            quick: self.quick,
        };
        Ok(loads.into_iter().map(row).collect())
    }

    fn what(&self) -> Result<What, String> {
        let one_of = "it has one of `command`, `server` and `engine`";
        match (self.command.is_empty(), &self.server, &self.engine) {
            (false, None, None) => Ok(What::Script {
                prepare: self.prepare.clone(),
                command: self.command.clone(),
                figure: self.figure()?,
            }),
            (true, Some(name), None) => {
                let case = servers::CASES.iter().find(|case| case.name == name);
                case.map(What::Server).ok_or_else(|| format!("`manx bench servers` has no '{name}'"))
            }
            (true, None, Some(name)) => {
                let subject = engines::SUBJECTS.iter().find(|subject| subject.name == name);
                subject.map(What::Engine).ok_or_else(|| format!("`manx bench engines` has no '{name}'"))
            }
            _ => Err(one_of.into()),
        }
    }

    fn figure(&self) -> Result<Figure, String> {
        let Some(text) = &self.figure else {
            return match self.better {
                None => Ok(Figure::Wall),
                Some(_) => Err("`better` says how `figure` is meant, and there is none".into()),
            };
        };
        let found = Regex::new(text).map_err(|error| format!("`figure`: {error}"))?;
        if found.captures_len() != 2 {
            return Err("`figure` has one group, around the number".into());
        }
        Ok(if self.better == Some(Better::Lower) { Figure::Time(found) } else { Figure::Rate(found) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_suite_has_enough_rows_that_say_what_they_need() {
        let rows = built_in();
        assert!(rows.len() >= 45, "{}", rows.len());
        assert!(rows.iter().any(|row| row.quick));
        for row in &rows {
            assert!(!row.words.is_empty(), "{}", row.name);
            assert!(row.needs.is_empty() || !row.get.is_empty(), "{}: how to get it", row.name);
        }
    }

    #[test]
    fn each_load_is_a_row() {
        let text = "[[row]]\nname = 'a'\ncommand = 'true'\nloads = [{ threads = 2 }, { threads = 2, copies = 2 },\n\
                    { threads = 2, copies = 3 }, { threads = 1, neighbours = 2 }, { threads = 1, with = 'x' }]";
        let names: Vec<String> = parse(text).unwrap().into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["a, 2 threads", "a, pair", "a, 3 copies", "a, 1 thread beside 2", "a, x"]);
    }

    #[test]
    fn a_wrong_suite_says_where_and_why() {
        let rest = "threads = 1\ncommand = 'true'\n";
        for (text, why) in [
            (format!("name = 'a'\nspeed = 1\n{rest}"), "line 3: unknown field `speed`"),
            (rest.into(), "row 1 (''): it has no name"),
            ("name = 'a'\ncommand = 'true'".into(), "either `threads` or `loads`"),
            ("name = 'a'\nthreads = 1".into(), "one of `command`, `server` and `engine`"),
            (format!("name = 'a'\nengine = 'lmdb'\n{rest}"), "one of `command`, `server` and `engine`"),
            ("name = 'a'\nthreads = 1\nserver = 'oracle'".into(), "`manx bench servers` has no 'oracle'"),
            ("name = 'a'\nthreads = 1\nengine = 'oracle'".into(), "`manx bench engines` has no 'oracle'"),
            (format!("name = 'a'\nfigure = 'x'\n{rest}"), "one group"),
            (format!("name = 'a'\nfigure = '('\n{rest}"), "`figure`: regex parse error"),
            (format!("name = 'a'\nbetter = 'lower'\n{rest}"), "there is none"),
            (format!("name = 'a'\nbetter = 'faster'\n{rest}"), "unknown variant `faster`"),
            ("name = 'a'\ncommand = 'true'\nthreads = 0".into(), "no thread"),
            (format!("name = 'a'\n{rest}[[row]]\nname = 'a'\n{rest}"), "row 2 ('a'): there are two rows 'a'"),
            ("rows".into(), "line 2: "),
        ] {
            let found = parse(&format!("[[row]]\n{text}")).unwrap_err();
            assert!(found.contains(why), "{why}: {found}");
        }
        let error = read(Path::new("/no/such/suite.toml")).unwrap_err().to_string();
        assert!(error.contains("--suite /no/such/suite.toml: no such file"), "{error}");
    }
}
