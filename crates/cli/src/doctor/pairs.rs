//! `manx doctor -- PROGRAM`: the program as it is and under `manx run`, in turn, and the change.
//!
//! Each pair is one run of either kind, close together, in an order drawn at random: what disturbs
//! the machine for longer falls on both. A figure's change is the median over the pairs, as a
//! ratio, or as a difference where either may be zero. Its interval is that of
//! `command::statistics`, and fewer than five pairs have none: then no word on better or worse is
//! said. The verdict on `manx run` is in `work`.
//!
//! One more run keeps counts, and says what the trial has answered. It is in no pair: counts cost a
//! short program milliseconds.

use super::change::{Change, Kind, Pair};
use super::counts;
use super::session::{Session, run as session};
use super::work::{self, Asked, Effect};
use crate::run::{library, program::Program};
use crate::stats::source;
use command::failure::{BROKEN, Failure, reason};
use command::machine::Machine;
use command::sigpipe::print;
use command::statistics::PAIRS_MIN;
use command::table::Table;
use doctor::evidence::under_manx::Counts;
use doctor::{Evidence, Verdict, diagnose, json, text};
use host::live_file::LIVE;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The figure that has the threads lost to all causes.
const LOST: &str = "lost in all";

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
                manx_run(&manx, &[], command)
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
    let counts = if done.iter().any(|pair| pair.manx_run.is_under_manx) {
        counted(&mut manx_run(&manx, &["--stats"], command), time, |passed| progress(2 * pairs, passed))
    } else {
        None
    };
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
    let helps = matches!(work.effect, Effect::Cures | Effect::Helps);
    let answers = counts.as_ref().map_or(&[][..], |counts| &counts.trials);
    let no_help = text::no_help(answers).filter(|_| !helps).map(str::to_owned);
    let trials = text::trials(answers).into_iter().chain(no_help);
    let notes: Vec<String> = work.said.iter().cloned().chain(trials).chain(notes(&done, asked)).collect();
    print(&if as_json {
        let value = serde_json::json!({
            "schema": "manx-doctor-pairs",
            "version": 1,
            "as_it_is": json::value(&evidence, &verdicts, &Machine::here()),
            "work": work,
            "counts": counts,
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

/// The program under `manx run` with these options.
fn manx_run(manx: &Path, options: &[&str], command: &[OsString]) -> Command {
    let mut child = Command::new(manx);
    child.args(["run", "--quiet"]).args(options).arg("--").args(command);
    child
}

/// The counts of a run that keeps them. `None` if it has none: what the pairs say stays as it is.
fn counted(child: &mut Command, time: Duration, progress: impl FnMut(Duration)) -> Option<Counts> {
    let (_, mut evidence) = session(child, time, None, progress).ok()?;
    counts::add(&mut evidence);
    let live = source::folder().join(format!("{}{LIVE}", evidence.pid));
    // Its process has ended, and nobody else asks for it.
    let _ = std::fs::remove_file(live);
    evidence.manx?.counts
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
