//! `manx top`: a live view of how the processes of a host wait.
//!
//! What is read is in [`crate::processes`]. `state` is what the screen shows, `view` draws it,
//! `input` reads keys and says what they do, `screen` takes the terminal and gives it back. Where
//! there is no terminal, the same is written as tables or as JSON.

mod columns;
mod input;
mod paper;
mod screen;
mod state;
mod view;

use crate::processes::Watch;
use columns::{COLUMNS, Column};
use command::duration::parse_ns;
use command::failure::{BROKEN, Failure, USAGE, exit_codes, reason};
use command::sigpipe::unwritable;
use command::table::Table;
use input::Input;
use ratatui::crossterm::event::KeyEvent;
use screen::{Event, Screen, Signals};
use state::{Effect, State};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};
use view::{host, summary};

/// The arguments of `manx top`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// The column by which processes are sorted
    #[arg(long, value_name = "COLUMN", default_value = "delay")]
    sort: Column,

    /// Show only processes that run under Manx
    #[arg(long)]
    manx: bool,

    /// Show only processes with this text in their name or command line
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    filter: String,

    /// The time between two looks, as 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Write one table as plain text, and end
    #[arg(long, conflicts_with = "count")]
    once: bool,

    /// Write this number of tables as plain text, one after each interval, and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Write JSON instead, one object on a line for each look
    #[arg(long)]
    json: bool,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let time = Duration::from_nanos(parse_ns(text)?);
    let is_fine = (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time);
    if is_fine { Ok(time) } else { Err("write a time from 100ms to 3600s".into()) }
}

fn more_help() -> String {
    const MORE: &str = "\
What is shown:
  DELAY  threads that were runnable and waited for a CPU, in percent of one
  THROT  the share of periods in which the quota of a control group was used up
  LOST   CPU time that threads lost by waiting in repaired loops, estimated
  LOCKS  locks that threads waited for; P50, P99 and MAX of these waits
  SITES  loops that wait, repaired by Manx
  All are of the time since the look before. The last three lines need a program
  that runs under `manx run --stats`; the others are of every process.

The terminal:
  The keys are at the bottom; h shows all, q leaves. Where standard output or input
  is no terminal, or TERM is dumb, one table is written as with --once. NO_COLOR is
  respected.";
    let codes = exit_codes(&[
        (0, "success"),
        (USAGE, "the command line is wrong"),
        (BROKEN, "the terminal or standard output cannot be written"),
    ]);
    format!("{MORE}\n\n{codes}")
}

/// Shows the processes.
///
/// # Errors
/// With code 125 if the terminal or standard output fails.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let state = State::new(args.sort, args.manx, args.filter.clone(), args.interval);
    let is_plain = args.once || args.count.is_some() || args.json;
    if is_plain || !is_screen() {
        return write(state, args.count.unwrap_or(1), args.json);
    }
    match live(state) {
        Ok(None) => Ok(0),
        Ok(Some(signal)) => screen::die_of(signal),
        Err(error) => {
            let what = format!("top: the terminal cannot be used: {}", reason(&error));
            Err(Failure::new(BROKEN, what, "`manx top --once` writes plain text"))
        }
    }
}

/// Whether a screen can be drawn.
fn is_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !is_dumb && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Writes `count` looks, or fewer if standard output has no reader any more. A rate needs a look
/// before.
fn write(mut state: State, count: u64, is_json: bool) -> Result<u8, Failure> {
    let mut watch = Watch::thorough();
    watch.look(None);
    for look in 0..count {
        std::thread::sleep(state.interval);
        state.update(watch.look(None));
        let separator = if look > 0 && !is_json { "\n" } else { "" };
        let text = if is_json { json(&state) } else { table(&state) };
        let mut out = io::stdout().lock();
        match out.write_all(format!("{separator}{text}").as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(unwritable(error)),
        }
    }
    Ok(0)
}

/// Runs the view until a key or a signal ends it; returns the signal.
fn live(mut state: State) -> io::Result<Option<i32>> {
    // <https://no-color.org>: any value that is not empty.
    let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let signals = Signals::block()?;
    let (mut watch, mut input) = (Watch::new(), Input::default());
    let mut screen = Screen::take()?;
    state.update(watch.look(None));
    // The first rates are there soon.
    let mut next = Instant::now() + state.interval.min(Duration::from_millis(500));
    loop {
        screen.draw(|buffer| view::draw(&mut state, buffer, colours))?;
        let limit = if state.paused { Duration::from_secs(3600) } else { next - Instant::now().min(next) };
        let effect = match signals.wait(limit) {
            Event::Input => match input.read()? {
                Some(keys) => typed(&mut state, keys),
                None => return Ok(Some(libc::SIGHUP)),
            },
            Event::Gone => return Ok(Some(libc::SIGHUP)),
            Event::Nothing | Event::Signal(libc::SIGWINCH) => Effect::Draw,
            Event::Signal(libc::SIGTSTP) => Effect::Suspend,
            Event::Signal(libc::SIGCONT) => {
                screen.lend(|| {})?;
                Effect::Draw
            }
            Event::Signal(signal) => return Ok(Some(signal)),
        };
        match effect {
            Effect::Quit => return Ok(None),
            Effect::Suspend => screen.lend(screen::stop)?,
            Effect::Redraw => screen.clear()?,
            Effect::Draw | Effect::Look => {}
        }
        // A look that comes early has a shorter time to count over, which is no harm.
        let is_time = effect == Effect::Look || Instant::now() >= next;
        if is_time && !state.paused {
            state.update(watch.look(state.open()));
            next = Instant::now() + state.interval;
        }
    }
}

/// Does what was typed.
fn typed(state: &mut State, keys: Vec<KeyEvent>) -> Effect {
    let mut effect = Effect::Draw;
    for key in keys {
        let Some(command) = input::command(key, state.writing) else { continue };
        match state.apply(command) {
            Effect::Quit => return Effect::Quit,
            Effect::Draw => {}
            other => effect = other,
        }
    }
    effect
}

/// A table of all columns. The command line comes last.
fn table(state: &State) -> String {
    let heads = COLUMNS.map(|column| match column.spec().is_text {
        true => column.spec().head.to_owned(),
        false => format!("{} []", column.spec().head),
    });
    let title = format!("{}\n{}", host(&state.snapshot.host), summary(state));
    let mut table = Table::new(&title, &heads.each_ref().map(String::as_str));
    for row in state.rows() {
        table.row(COLUMNS.map(|column: Column| column.cell(row)));
    }
    table.to_string()
}

/// One line of JSON: the host, and the processes in the order of the rows.
fn json(state: &State) -> String {
    let mut snapshot = state.snapshot.clone();
    snapshot.processes = state.rows().cloned().collect();
    let mut value = serde_json::to_value(&snapshot).expect("numbers and text");
    let label = [("schema", "manx-top".into()), ("version", 1.into())];
    value.as_object_mut().expect("an object").extend(label.map(|(key, it)| (key.to_owned(), it)));
    format!("{value}\n")
}
