//! `manx doctor -- PROGRAM`: the program as it is and under `manx run`, in turn, and the change.
//!
//! Each pair is one run of either kind, close together, in an order drawn at random: what disturbs
//! the machine for longer falls on both. A figure's change is the median over the pairs, as a
//! ratio, or as a difference where either may be zero. Its interval is that of
//! `command::statistics`, and fewer than five pairs have none: then no word on better or worse is
//! said. The verdict on `manx run` is in `work`.

use super::figure::Better;
use super::session::{Session, run as session};
use super::work::{self, Asked, Effect};
use crate::run::{library, program::Program};
use command::failure::{BROKEN, Failure, reason};
use command::machine::Machine;
use command::sigpipe::print;
use command::statistics::{PAIRS_MIN, interval, median};
use command::table::Table;
use doctor::{Evidence, Verdict, diagnose, json, text};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// The figure that has the threads lost to all causes.
const LOST: &str = "lost in all";
/// Fewer lost threads are nothing to cure.
pub const LOST_MIN: f64 = 0.1;
/// The part of the lost threads that is left if the program is cured, at most.
pub const CURED: f64 = 0.2;

/// What a figure's change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Under `manx run`, divided by as it is
    Ratio,
    /// Under `manx run`, less as it is
    Difference,
}

/// How a figure changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub figure: String,
    pub unit: &'static str,
    pub kind: Kind,
    /// The direction in which the figure gets better, if it is one of work
    pub better: Option<Better>,
    /// The median of the runs as it is
    pub as_it_is: f64,
    /// … and of those under `manx run`
    pub manx_run: f64,
    pub pairs: usize,
    /// The median of the pairs' changes
    pub change: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Change {
    /// Of one figure by pairs; `None` if no pair has it.
    pub fn of(figure: &str, unit: &'static str, kind: Kind, pairs: &[(f64, f64)]) -> Option<Change> {
        let is_usable = |(a, b): &&(f64, f64)| kind == Kind::Difference || *a > 0.0 && *b > 0.0;
        // A sum of nothing is a negative zero; with 0 added it is none.
        let pairs: Vec<(f64, f64)> =
            pairs.iter().filter(is_usable).map(|(a, b)| (a + 0.0, b + 0.0)).collect();
        if pairs.is_empty() {
            return None;
        }
        let change = |(a, b): &(f64, f64)| if kind == Kind::Ratio { b / a } else { b - a };
        let changes: Vec<f64> = pairs.iter().map(change).collect();
        let (low, high) = interval(&changes).unzip();
        let side = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
        Some(Change {
            figure: figure.into(),
            unit,
            kind,
            better: None,
            as_it_is: side(|pair| pair.0),
            manx_run: side(|pair| pair.1),
            pairs: pairs.len(),
            change: median(&changes),
            low,
            high,
        })
    }

    /// Whether it is less, more, or not known.
    fn word(&self) -> &'static str {
        let neutral = if self.kind == Kind::Ratio { 1.0 } else { 0.0 };
        match self.low.zip(self.high) {
            None => "too few pairs",
            Some((_, high)) if high < neutral => "less",
            Some((low, _)) if low > neutral => "more",
            Some((low, high)) if low == high => "the same",
            Some(_) => "undecided",
        }
    }

    fn row(&self) -> [String; 6] {
        let show = |value: f64| match self.kind {
            Kind::Ratio if value >= 10.0 => format!("x {value:.0}"),
            Kind::Ratio => format!("{} %", signed(100.0 * (value - 1.0), 1)),
            Kind::Difference => signed(value, 2),
        };
        let interval = self
            .low
            .zip(self.high)
            .map_or("-".into(), |(low, high)| format!("{} to {}", show(low), show(high)));
        let figure = if self.unit.is_empty() {
            self.figure.clone()
        } else {
            format!("{} [{}]", self.figure, self.unit)
        };
        let shown = |value: f64| number(value, if self.unit.is_empty() && value >= 100.0 { 0 } else { 2 });
        [figure, shown(self.as_it_is), shown(self.manx_run), show(self.change), interval, self.word().into()]
    }
}

/// A number with this many places. What is rounded to zero has no sign.
pub fn number(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| byte == b'0' || byte == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// The same with a sign, as a difference has it.
fn signed(value: f64, places: usize) -> String {
    let text = number(value, places);
    if text.starts_with('-') { text } else { format!("+{text}") }
}

/// A pair of runs.
#[derive(Debug, Default, Serialize)]
pub struct Pair {
    pub as_it_is: Session,
    pub manx_run: Session,
    pub manx_run_first: bool,
}

/// Runs the pairs and prints what was found; returns the verdicts on the program as it is.
///
/// # Errors
/// If the program or the preload library is missing, or a run cannot be started.
pub fn run(
    command: &[OsString],
    pairs: usize,
    time: Duration,
    asked: Asked<'_>,
    as_json: bool,
    mut progress: impl FnMut(usize, Duration),
) -> Result<Vec<Verdict>, Failure> {
    Program::find(&command[0])?;
    library::find()?;
    let manx = std::env::current_exe().map_err(|error| {
        let what = format!("cannot tell where manx itself lies: {}", reason(&error));
        Failure::new(BROKEN, what, "mount /proc")
    })?;
    let mut first: Option<Evidence> = None;
    let mut done = Vec::new();
    for at in 0..pairs {
        let manx_run_first = fastrand::bool();
        let mut both = [None, None];
        for is_second in [false, true] {
            let under_manx = manx_run_first != is_second;
            let mut child = if under_manx {
                let mut child = Command::new(&manx);
                child.args(["run", "--quiet", "--"]).args(command);
                child
            } else {
                let mut child = Command::new(&command[0]);
                child.args(&command[1..]);
                child
            };
            let number = 2 * at + usize::from(is_second);
            let (result, evidence) =
                session(&mut child, time, asked.map(|(pattern, _)| pattern), |passed| {
                    progress(number, passed)
                })?;
            if !under_manx && first.is_none() {
                first = Some(evidence);
            }
            both[usize::from(under_manx)] = Some(result);
        }
        let [as_it_is, manx_run] = both.map(|run| run.expect("both ran"));
        done.push(Pair { as_it_is, manx_run, manx_run_first });
    }
    let evidence = first.expect("at least one pair");
    let mut verdicts = diagnose(&evidence);
    let mut changes = changes(&done);
    let figure = work::change(&done, asked, time);
    let lost = changes.iter().find(|change| change.figure == LOST);
    let work = work::judge(&done, figure.as_ref(), lost, asked);
    if let Some(figure) = figure {
        changes.retain(|change| change.figure != figure.figure);
        changes.insert(0, figure);
    }
    let harms = work.effect == Effect::Harms;
    if harms {
        let is_manx_run = |command: &String| command.starts_with("manx run ");
        for verdict in &mut verdicts {
            verdict.remedies.retain(|remedy| !remedy.command.as_ref().is_some_and(is_manx_run));
        }
    }
    let notes: Vec<String> = work.said.iter().cloned().chain(notes(&done, asked)).collect();
    print(&if as_json {
        let value = serde_json::json!({
            "schema": "manx-doctor-pairs",
            "version": 1,
            "as_it_is": json::value(&evidence, &verdicts, &Machine::here()),
            "work": work,
            "changes": changes,
            "notes": notes,
            "runs": done,
        });
        format!("{:#}\n", value)
    } else {
        let table = table(&changes, done.len());
        // Harm comes before all else.
        let (first, rest) = notes.split_at(usize::from(harms));
        let lines = |notes: &[String]| notes.iter().map(|note| format!("{note}\n")).collect::<String>();
        let gap = if harms { "\n" } else { "" };
        let (first, rest) = (lines(first), lines(rest));
        format!("{first}{gap}As it is:\n{}\n{table}\n{rest}", text::report(&evidence, &verdicts))
    })?;
    Ok(verdicts)
}

fn changes(pairs: &[Pair]) -> Vec<Change> {
    let of = |figure: &dyn Fn(&Session) -> Option<f64>| -> Vec<(f64, f64)> {
        pairs.iter().filter_map(|pair| figure(&pair.as_it_is).zip(figure(&pair.manx_run))).collect()
    };
    let causes: BTreeSet<&'static str> = pairs
        .iter()
        .flat_map(|pair| [&pair.as_it_is, &pair.manx_run])
        .flat_map(|run| run.lost_threads.iter().flatten())
        .map(|(cause, _)| *cause)
        .collect();
    let figures = [
        Change::of("wall time", "s", Kind::Ratio, &of(&|run| run.wall_s)),
        Change::of("CPU time", "s", Kind::Ratio, &of(&|run| Some(run.cpu_s))),
        Change::of("waits for a CPU", "s", Kind::Ratio, &of(&|run| Some(run.queue_delay_s))),
        Change::of("involuntary switches", "", Kind::Ratio, &of(&|run| Some(run.involuntary_switches))),
    ];
    let lost = causes.into_iter().map(|cause| {
        let figure = |run: &Session| Some(run.lost_threads.as_ref()?.get(cause).copied().unwrap_or(0.0));
        Change::of(&format!("lost to {cause}"), "threads", Kind::Difference, &of(&figure))
    });
    let all = |run: &Session| Some(run.lost_threads.as_ref()?.values().sum());
    let all = Change::of(LOST, "threads", Kind::Difference, &of(&all));
    figures.into_iter().chain(lost).chain([all]).flatten().collect()
}

fn table(changes: &[Change], pairs: usize) -> Table {
    let title = format!(
        "Under `manx run`, {pairs} {}, each run as it is and under `manx run`:",
        if pairs == 1 { "pair" } else { "pairs" }
    );
    let headers = ["figure", "as it is []", "manx run []", "change []", "95 % interval []", "so it is"];
    let mut table = Table::new(&title, &headers);
    changes.iter().for_each(|change| table.row(change.row()));
    table
}

/// What a reader has to know of the runs.
fn notes(pairs: &[Pair], asked: Asked<'_>) -> Vec<String> {
    let output = if asked.is_some() { "searched for the figure and discarded" } else { "discarded" };
    let mut notes = vec![format!("The program's own output was {output}; its standard input was /dev/null.")];
    if pairs.len() < PAIRS_MIN {
        notes.push(format!(
            "Fewer than {PAIRS_MIN} pairs have no interval, and no verdict follows: use --pairs={PAIRS_MIN} or more."
        ));
    }
    let runs = || pairs.iter().flat_map(|pair| [&pair.as_it_is, &pair.manx_run]);
    let ended = runs().filter(|run| run.wall_s.is_none()).count();
    if ended > 0 {
        notes.push(format!(
            "{ended} of {} runs did not end by themselves: they were watched for the time of --for, then ended. \
             Where the other run of the pair ended, their wall time counts as that time; it is a lower bound.",
            2 * pairs.len()
        ));
    }
    if let Some((pattern, _)) = asked {
        let without = runs().filter(|run| run.found.median.is_none()).count();
        if without > 0 {
            notes.push(format!(
                "The output of {without} of {} runs has no number by the pattern `{}`.",
                2 * pairs.len(),
                pattern.text()
            ));
        }
        if let Some(text) = runs().find_map(|run| run.found.no_number.as_ref()) {
            notes.push(format!("The group of the pattern found `{text}`, which is no number."));
        }
    }
    let short = runs().filter(|run| run.lost_threads.is_none()).count();
    if short > 0 {
        notes.push(format!(
            "{short} of {} runs were too short to say what they lost, and to what.",
            2 * pairs.len()
        ));
    }
    if let Some(how) = runs().find_map(|run| run.failed.as_ref()) {
        let count = |of: fn(&Pair) -> &Session| pairs.iter().filter(|it| of(it).failed.is_some()).count();
        notes.push(format!(
            "{} of {all} runs failed as it is, and {} of {all} under `manx run`, as with {how}.",
            count(|pair| &pair.as_it_is),
            count(|pair| &pair.manx_run),
            all = pairs.len()
        ));
    }
    if !pairs.iter().any(|pair| pair.manx_run.is_under_manx) {
        notes.push(
            "The preload library was seen in none of the runs under `manx run`: the program was too short, \
             or something keeps the library out; `manx run --dry-run` says what."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_pairs_have_an_interval_and_a_word_and_fewer_have_none() {
        let better = [(2.0, 1.0), (2.0, 1.1), (2.0, 0.9), (2.0, 1.0), (2.0, 1.0)];
        let change = Change::of("wall time", "s", Kind::Ratio, &better).unwrap();
        assert_eq!((change.change, change.word()), (0.5, "less"));
        let change = Change::of("wall time", "s", Kind::Ratio, &better[..4]).unwrap();
        assert_eq!((change.low, change.word()), (None, "too few pairs"));
        let both = [(1.0, 1.1), (1.0, 0.9), (1.0, 1.2), (1.0, 0.8), (1.0, 1.0)];
        assert_eq!(Change::of("wall time", "s", Kind::Ratio, &both).unwrap().word(), "undecided");
    }

    #[test]
    fn what_may_be_zero_is_a_difference() {
        let change = Change::of("lost", "threads", Kind::Difference, &[(3.0, 0.0); 5]).unwrap();
        assert_eq!((change.change, change.word()), (-3.0, "less"));
        assert_eq!(change.row()[3..], ["-3.00", "-3.00 to -3.00", "less"]);
        assert_eq!(Change::of("delay", "s", Kind::Ratio, &[(0.0, 0.0)]), None);
    }

    #[test]
    fn what_is_rounded_to_zero_has_no_minus() {
        let nothing = Change::of("lost", "threads", Kind::Difference, &[(-0.0, -0.004); 5]).unwrap();
        assert_eq!(nothing.row()[1..5], ["0.00", "0.00", "+0.00", "+0.00 to +0.00"]);
        let ratio = Change::of("wall time", "s", Kind::Ratio, &[(10_000.0, 9_999.0); 5]).unwrap();
        assert_eq!(ratio.row()[3..5], ["+0.0 %", "+0.0 % to +0.0 %"]);
        assert_eq!((number(-0.01, 2), number(-1.0, 0)), ("-0.01".into(), "-1".into()));
    }
}
