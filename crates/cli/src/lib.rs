//! manx: the command, as a library of one entry point and one definition.
//!
//! [`command()`] is the single definition of the command line: `-h`, `--help`, the errors and the
//! man pages all come from it. [`main`] runs it.

pub mod cpus;
pub mod external;
pub mod run;
pub mod stats;

use clap::{CommandFactory, Parser, Subcommand};
use command::failure::EXIT_CODES;

/// Keeps the tail latency of multi-threaded programs short when threads outnumber, or outrun, the
/// CPUs they get.
#[derive(Debug, Parser)]
#[command(name = "manx", version, after_help = EXIT_CODES, arg_required_else_help = true)]
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
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        if let Some((companion, arguments)) = external::asked(&arguments) {
            return Err(companion.start(&arguments, inherited));
        }
        command::parsed(command(), |cli: Cli| match cli.action {
            Action::Run(args) => run::run(&args, inherited),
            Action::Stats(args) => stats::run(&args),
            Action::Cpus(args) => cpus::run(&args),
        })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::command().debug_assert();
    }
}
