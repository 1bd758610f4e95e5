//! The one door for developers: `cargo xtask setup | build | test | demo | bench | soak | fuzz |
//! guest | tidy | man | install | dist`.
//!
//! One file a subcommand; what they share is [`process`] (running a command), [`workspace`] (where
//! things are) and [`steps`] (a list of timed steps with a verdict). The tool is built before
//! anything else, so it has few dependencies and none on the crates it builds: it calls `cargo` and
//! the built `manx`.
//!
//! Exit status: 0 done, 1 something failed (the text says what, and what to do), 2 wrong usage.

mod bench;
mod build;
mod demo;
mod dist;
mod fuzz;
mod glibc;
mod guest;
mod install;
mod libmanx;
mod man;
mod outcome;
mod process;
mod put;
mod setup;
mod soak;
mod steps;
mod test;
mod tidy;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The one door for developers of Manx.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_version_flag = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install the Debian packages that tests and engines need, and no others
    Setup {
        /// More to set up: the programs of `manx bench victims` or of `manx bench harm`, WiredTiger
        /// with the paper's repairs, or all that `manx bench paper 000` needs
        #[arg(value_enum)]
        more: Option<setup::More>,
    },
    /// Build the commands, the libraries that `manx` preloads and libmanx, in release mode, side by
    /// side
    Build,
    /// Run all that CI runs, go on after a failure, and end with a table
    Test(test::Options),
    /// Show the main job: a real engine with and without `manx run`
    Demo(demo::Options),
    /// Build, then run `manx bench` with these arguments
    Bench {
        /// What `manx bench` is given: a benchmark's name and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run a dozen programs and servers at once under `manx run` for an hour, and check each result
    Soak(soak::Options),
    /// Give a part that reads bytes from outside inputs that are drawn from a seed
    Fuzz(fuzz::Options),
    /// Boot a kernel with cgroup v2 in an emulator and see whether the CPU budget is right there;
    /// no part of CI
    Guest(guest::Options),
    /// Check the style: headers, stray files, links, words, dependency arrows, the built library
    Tidy,
    /// Write the manual pages, and the completions of bash, zsh and fish
    Man {
        /// The folder that they are written to
        #[arg(long, value_name = "DIR", default_value = "target/man")]
        out: PathBuf,
    },
    /// Build and install the commands, the libraries, the headers and the manual pages; respects
    /// DESTDIR
    Install {
        /// The folder that holds bin, include, lib and share
        #[arg(long, value_name = "DIR", default_value = "/usr/local")]
        prefix: PathBuf,
        /// Install manx-bench too, which `manx bench` and `manx profile` start
        #[arg(long)]
        bench: bool,
    },
    /// Make what a machine without Rust installs, in target/dist: a Debian package, an archive with
    /// checksums, and an image for containers
    Dist,
}

fn main() -> ExitCode {
    // SAFETY: no other thread runs yet, and the default action needs no handler. With it, output
    // that nobody reads any more (`| head`) ends this program instead of making it panic.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let result = match Arguments::parse().command {
        Command::Setup { more: None } => setup::run(),
        Command::Setup { more: Some(setup::More::Victims) } => setup::victims::run(),
        Command::Setup { more: Some(setup::More::Harm) } => setup::harm::run(),
        Command::Setup { more: Some(setup::More::Mongo) } => setup::mongo::run(),
        Command::Setup { more: Some(setup::More::Wiredtiger) } => setup::wiredtiger::run(),
        Command::Setup { more: Some(setup::More::Demo) } => demo::packages::set_up(),
        Command::Build => build::run(),
        Command::Test(options) => test::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Bench { arguments } => bench::run(&arguments),
        Command::Soak(options) => soak::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Guest(options) => guest::run(&options),
        Command::Tidy => tidy::run(),
        Command::Man { out } => man::run(&out),
        Command::Install { prefix, bench } => install::run(&prefix, bench),
        Command::Dist => dist::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // The table of `test` and the list of `tidy` have said it already and end the output.
            if !message.is_empty() {
                eprintln!("xtask: {message}");
            }
            ExitCode::FAILURE
        }
    }
}
