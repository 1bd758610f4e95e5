//! `manx stats`: where a program has waited, in loops and for locks, live and afterwards.
//!
//! Where the counts are found is in [`source`], how JSON is read in [`recorded`]; the table
//! and the JSON are those that the preload library itself writes ([`preload_abi::render`]). Without
//! a process or a file, [`list`] shows what runs under Manx.

pub mod list;
pub mod recorded;
pub mod source;

use command::failure::{Failure, NO_STATISTICS, USAGE, exit_codes, reason};
use command::machine::Machine;
use command::sigpipe::or_unread;
use preload_abi::{live, render};
use source::{Source, invalid};
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Sends a terminal's cursor home and clears what is there.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// The arguments of `manx stats`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = more_help())]
pub struct Args {
    /// A process id, or a file that statistics were written to; without it, the processes that run
    /// under Manx are listed
    ///
    /// A file is what `manx run --stats=FILE` was given: FILE once the program has ended, FILE.live
    /// while it runs or after it was killed. With `--stats` alone, the counts of a process stay in
    /// PID.live in the folder manx-stats-UID of TMPDIR. A file whose name is a number is written
    /// ./NUMBER.
    #[arg(value_name = "PID|FILE")]
    target: Option<OsString>,

    /// Write JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Show the counts again every second until the program ends
    #[arg(long, requires = "target")]
    watch: bool,
}

fn more_help() -> String {
    exit_codes(&[
        (0, "success"),
        (NO_STATISTICS, "there are no statistics to show, or they cannot be written"),
        (USAGE, "the command line is wrong"),
    ])
}

/// Shows the statistics.
///
/// # Errors
/// With code 1 if there are none to show.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let Some(target) = &args.target else { return list::run(args.json) };
    let source = Source::find(target)?;
    let clear = args.watch && io::stdout().is_terminal();
    loop {
        let image = source.read()?;
        let live = image.live().map_err(|why| source.fault(&invalid(why)))?;
        let mut text = String::from(if clear { CLEAR } else { "" });
        let written =
            if args.json { render::json(&live, &mut text) } else { render::table(&live, &mut text) };
        written.expect("writing to a String");
        if args.json && source.is_of_process() {
            text = with_machine(&text);
        }
        match print(&text) {
            Ok(Heard::Yes) => {}
            Ok(Heard::No) => return Ok(0),
            Err(error) => {
                return Err(Failure::new(
                    NO_STATISTICS,
                    format!("standard output cannot be written: {}", reason(&error)),
                    "see where it goes",
                ));
            }
        }
        let header = live.header();
        let ended = header.state.load(Ordering::Acquire) == live::ENDED
            || !source.is_alive(header.pid.load(Ordering::Relaxed));
        if !args.watch || ended {
            return Ok(0);
        }
        std::thread::sleep(WATCH_INTERVAL);
        if !clear && !args.json && matches!(print("\n"), Ok(Heard::No)) {
            return Ok(0);
        }
    }
}

/// The same JSON with the machine at its end: this one, where the process runs.
fn with_machine(json: &str) -> String {
    let machine = serde_json::to_string(&Machine::here()).expect("texts and numbers");
    let open = json.trim_end().strip_suffix('}').expect("an object").trim_end();
    format!("{open},\n  \"machine\": {machine}\n}}\n")
}

/// Whether standard output still has a reader.
enum Heard {
    Yes,
    No,
}

fn print(text: &str) -> io::Result<Heard> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Heard::Yes),
        error => or_unread(error).map(|()| Heard::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_added_at_the_end() {
        let text = with_machine("{\n  \"schema\": \"x\",\n  \"locks\": [\n  ]\n}\n");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert!(value["machine"]["kernel"].is_string() && value["schema"] == "x", "{text}");
        assert!(text.ends_with("}\n"));
    }
}
