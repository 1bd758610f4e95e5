//! manx: the command, as a library of one entry point and one definition.
//!
//! [`command`] is the single definition of the command line: `-h`, `--help`, the errors and the man pages
//! all come from it. [`main`] runs it.

pub mod bench;
pub mod cpus;
pub mod failure;
pub mod profile;
pub mod run;
pub mod serve;
mod sigpipe;
pub mod stats;

use clap::{CommandFactory, Parser, Subcommand};
use failure::Failure;

/// Exit codes, for `--help` and the man page.
const EXIT_CODES: &str = "\
Exit codes:
  0    success; `manx run` ends with the program's own exit status
  1    `manx stats`: there are no statistics to show;
       `manx profile`: the program failed, or gave no result
  2    the command line or the settings are wrong
  125  the preload library is missing or of another version
  126  the program was found but cannot be executed
  127  the program was not found";

/// Keeps the tail latency of multi-threaded programs short when threads outnumber, or outrun, the CPUs
/// they get.
#[derive(Debug, Parser)]
#[command(name = "manx", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run a program with its busy waiting and its locks cured
    Run(run::Args),
    /// Show where a program that runs or ran with statistics has waited
    Stats(stats::Args),
    /// Show how many CPUs a program really gets, why not more, and which runtimes know
    Cpus(cpus::Args),
    /// Sweep a program's latency target, draw what it costs and brings, and suggest one
    Profile(profile::Args),
    /// Serve a store of transactions to clients of Redis
    Serve(serve::Args),
    /// Run one of Manx's experiments on this machine
    Bench(bench::Args),
}

/// The definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command with the process's own arguments. Does not return: it exits, or becomes the program.
pub fn main() -> ! {
    let inherited = sigpipe::ignore();
    let outcome = std::panic::catch_unwind(|| match Cli::try_parse() {
        Ok(cli) => match cli.action {
            Action::Run(args) => run::run(&args, inherited),
            Action::Stats(args) => stats::run(&args),
            Action::Cpus(args) => cpus::run(&args),
            Action::Profile(args) => profile::run(&args),
            Action::Serve(args) => serve::run(&args),
            Action::Bench(args) => bench::run(&args),
        },
        Err(error) => {
            // Help goes to stdout and errors to stderr; if neither can be written, nobody is left to tell.
            let _ = error.print();
            Ok(error.exit_code() as u8)
        }
    });
    std::process::exit(match outcome {
        Ok(Ok(code)) => i32::from(code),
        Ok(Err(failure)) => {
            report_failure(&failure);
            i32::from(failure.code)
        }
        // The panic hook has already said what happened; 101 is what Rust's own `main` would return.
        Err(_) => 101,
    })
}

fn report_failure(failure: &Failure) {
    use std::io::Write as _;
    // As above: there is nobody else to tell.
    let _ = writeln!(std::io::stderr(), "{failure}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_is_consistent() {
        super::command().debug_assert();
    }
}
