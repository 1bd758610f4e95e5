//! manx: the command, as a library of one entry point and one definition.
//!
//! [`command()`] is the single definition of the command line: `-h`, `--help`, the errors and the
//! man pages all come from it. [`main`] runs it.

pub mod cpus;
#[cfg(feature = "watch")]
pub mod doctor;
#[cfg(feature = "watch")]
pub mod exporter;
pub mod external;
pub mod processes;
#[cfg(feature = "watch")]
pub mod report;
pub mod run;
pub mod stats;
#[cfg(feature = "watch")]
pub mod top;

use clap::{CommandFactory, Parser, Subcommand};
use command::failure::{EXIT_CODES, exit_codes};
use command::machine::Machine;
use command::sigpipe;
use serde_json::json;
use std::ffi::OsString;

/// Keeps the tail latency of multi-threaded programs short when threads outnumber, or outrun, the
/// CPUs they get.
#[derive(Debug, Parser)]
#[command(name = "manx", version, after_long_help = exit_codes(&EXIT_CODES), arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a program with its busy waiting and its locks cured
    Run(Box<run::Args>),
    /// Show where a program that runs or ran with statistics has waited
    Stats(stats::Args),
    /// Find out what keeps a running process from being fast, and what to do
    #[cfg(feature = "watch")]
    Doctor(doctor::Args),
    /// Watch how the processes of this host wait, live
    #[cfg(feature = "watch")]
    Top(top::Args),
    /// Serve metrics of the programs on this host to Prometheus
    #[cfg(feature = "watch")]
    Exporter(exporter::Args),
    /// Make a page of tables and pictures, one file of HTML, from results in JSON
    #[cfg(feature = "watch")]
    Report(report::Args),
    /// Show how many CPUs a program really gets, why not more, and which runtimes know
    Cpus(cpus::Args),
}

/// The definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command().subcommands(external::commands())
}

/// Runs the command with the process's own arguments. Does not return: it exits, or becomes a
/// program.
pub fn main() -> ! {
    command::main(|inherited| {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        if let Some((companion, arguments)) = external::asked(&arguments) {
            return Err(companion.start(&arguments, inherited));
        }
        if let Some(text) = version(&arguments) {
            return sigpipe::print(&text).map(|()| 0);
        }
        command::parsed(command(), |cli: Cli| match cli.action {
            Action::Run(args) => run::run(&args, inherited),
            Action::Stats(args) => stats::run(&args),
            #[cfg(feature = "watch")]
            Action::Doctor(args) => doctor::run(&args),
            #[cfg(feature = "watch")]
            Action::Top(args) => top::run(&args),
            #[cfg(feature = "watch")]
            Action::Exporter(args) => exporter::run(&args),
            #[cfg(feature = "watch")]
            Action::Report(args) => report::run(&args),
            Action::Cpus(args) => cpus::run(&args),
        })
    })
}

/// The long form of the version, if the arguments ask for it: as text, whose first line is that of
/// `-V` and whose other lines say where it runs, or with `--json`.
fn version(arguments: &[OsString]) -> Option<String> {
    let is_json = match arguments {
        [version] if version == "--version" => false,
        [version, json] if version == "--version" && json == "--json" => true,
        _ => return None,
    };
    let (manx, machine, library) = (env!("CARGO_PKG_VERSION"), Machine::here(), run::library::find());
    if is_json {
        let library = library.ok().map(|path| path.display().to_string());
        return Some(format!("{}\n", json!({ "manx": manx, "machine": machine, "library": library })));
    }
    let library = library.map_or_else(|failure| failure.what, |path| path.display().to_string());
    let facts = machine.facts().into_iter().chain([("library", library)]);
    let lines = facts.map(|(name, fact)| format!("{name:<10} {fact}\n")).collect::<String>();
    Some(format!("manx {manx}\n{lines}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_long_version_begins_with_the_short_one() {
        let text = super::version(&["--version".into()]).expect("asked for");
        assert!(text.starts_with(&super::command().render_version()), "{text}");
        for name in ["commit", "processor", "kernel", "C library", "governor", "SMT", "steal", "library"] {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}: {text}");
        }
    }

    #[test]
    fn the_version_is_there_as_json_and_only_if_it_is_asked_for() {
        let text = super::version(&["--version".into(), "--json".into()]).expect("asked for");
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["manx"], env!("CARGO_PKG_VERSION"));
        assert!(value["machine"]["kernel"].is_string() && value.get("library").is_some(), "{text}");
        for arguments in [&["--json".into()][..], &["run".into(), "--version".into()], &[]] {
            assert_eq!(super::version(arguments), None);
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        super::command().debug_assert();
    }
}
