//! `manx run`: becomes the program, with the preload library in it.
//!
//! This is the order of the steps, and so of the errors: the settings are put together
//! ([`settings`]), the program is found and followed to the file that really runs ([`program`]),
//! the plan is made (`plan.rs`): it depends on whether something keeps the library out
//! ([`obstacle`]), where the library is ([`library`]), and what the environment becomes
//! ([`environment`], [`cpus`], [`variables`]). Then old files in the user's folders are removed
//! ([`cache`], [`leftovers`]), and the process executes the program ([`command::exec`]). So
//! signals, exit status, terminal and standard streams are the program's own. No other process
//! stays behind, but for two helpers that the program does not notice: one under a quota
//! ([`quota`]), and one with `--metrics` ([`metrics`]).

pub mod cache;
pub mod config;
pub mod cpus;
pub mod environment;
pub mod forms;
pub mod helper;
pub mod leftovers;
pub mod libraries;
pub mod library;
pub mod loops;
#[cfg(feature = "watch")]
pub mod metrics;
pub mod obstacle;
mod plan;
pub mod program;
pub mod quota;
pub mod settings;
pub mod variables;

use command::exec;
use command::failure::{BROKEN, Failure, NOT_EXECUTABLE, NOT_FOUND, USAGE, exit_codes, reason};
use command::sigpipe::{Inherited, print};
use plan::{Plan, Why};
use preload_abi::options::{Options, Stats};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The arguments of `manx run`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "manx run [OPTIONS] [--] PROGRAM [ARGS]...", after_long_help = more_help())]
pub struct Args {
    #[command(flatten)]
    flags: settings::Flags,

    /// Read settings from this TOML file
    ///
    /// See "Settings in a file" below. A flag of the command line wins over the file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Write metrics of the program to a file once a second, or serve them at a socket, until it
    /// ends: FILE.prom or unix:PATH
    ///
    /// FILE is for the textfile collector of node_exporter, and its name ends in .prom. At the
    /// socket they are served as by `manx exporter`, which does the same for all programs of a
    /// host. Counts are kept as with --stats=live, unless --stats says otherwise. A helper process,
    /// which is no child of the program, does the work.
    #[cfg(feature = "watch")]
    #[arg(long, value_name = "WHERE", value_parser = metrics::parse)]
    metrics: Option<metrics::Destination>,

    /// Show what would be done, and do not run the program
    #[arg(long)]
    dry_run: bool,

    /// The program, and behind it its own arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// The sections of `--help` and the man page behind the options.
fn more_help() -> String {
    const FILTERS: &str = "\
Filters:
  --only and --not take the same names:

    NAME             an executable, by the name of its file or by the one by
                     which it was started (a link's, a script's)
    NAME.so, NAME.so.1
                     a library, if `.so` is followed by a dot, a `*` or the end
    LIBRARY:SYMBOL   the loops in a function that the library exports
    LIBRARY:0xOFFSET
                     the loop at this offset, as --dry-run and --verbose show it
    exe:NAME, lib:NAME
                     an executable, a library, whatever the name looks like;
                     lib: with a program's own name stands for its own loops

  A `*` in a name stands for any characters. Names have no folder.

  In a program that is not meant the library does nothing, as with MANX=off, and
  what that program starts is judged by its own name. CPU counts are told by
  variables only if PROGRAM itself is meant. Names of libraries decide which
  loops the guard repairs, and nothing else: locks, CPU counts and latency
  targets stay. If --only names executables alone, no library is filtered, and
  the other way round.";
    const ENVIRONMENT: &str = "\
Environment:
  MANX=off      run the program unchanged
  MANX_OPTIONS  settings from outside, also without `manx run`
  MANX_PRELOAD  the path of libmanx_preload.so, if it lies neither
                beside manx nor in ../lib/manx from there";
    let codes = exit_codes(&[
        (0, "success of --dry-run; without it, the program's own exit status"),
        (USAGE, "the command line or the settings are wrong"),
        (BROKEN, "the preload library is missing or of another version"),
        (NOT_EXECUTABLE, "the program was found but cannot be executed"),
        (NOT_FOUND, "the program was not found"),
    ]);
    format!("{FILTERS}\n\n{}\n\n{ENVIRONMENT}\n\n{codes}", config::documentation())
}

/// Becomes the program.
///
/// # Errors
/// Whatever keeps the program from being run, with its exit code.
pub fn run(args: &Args, inherited: Inherited) -> Result<u8, Failure> {
    let settings = settings::gather(&args.flags, args.config.as_deref())?;
    #[cfg_attr(not(feature = "watch"), expect(unused_mut, reason = "--metrics alone changes them"))]
    let mut options = Options::parse_all(settings.as_bytes());
    #[cfg(feature = "watch")]
    if args.metrics.is_some() && options.stats == Stats::Off {
        // For what looks while the program runs.
        options.stats = Stats::Live;
    }
    let program = program::Program::find(&args.command[0])?;
    let plan = Plan::make(&options, &program)?;
    if args.dry_run {
        return print(&plan::describe(&plan, &options, &program)).map(|()| 0);
    }
    if !options.quiet {
        warn(&plan, &program);
    }
    let mut changes = plan.changes().to_vec();
    if matches!(plan, Plan::Preload { .. }) && options.cache {
        cache::remove_unused();
    }
    if options.stats == Stats::Live {
        leftovers::remove();
    }
    #[cfg(feature = "watch")]
    if let Some(destination) = &args.metrics {
        metrics::start(destination)?;
    }
    if !matches!(plan, Plan::Unchanged(_))
        && let Some(setting) =
            quota::setting(&options, &program, plan.reported().map(cpus::ReportedCpus::budget))
    {
        match quota::start(&setting) {
            Ok(change) => changes.push(change),
            Err(error) if !options.quiet => {
                let _ = writeln!(io::stderr(), "manx: warning: the quota is not paced: {}", reason(&error));
            }
            Err(_) => {}
        }
    }
    inherited.restore();
    Err(exec::exec(program.file(), &args.command, &changes))
}

/// Warns of what the user may not expect. If standard error cannot be written, the program runs all
/// the same.
fn warn(plan: &Plan, program: &program::Program) {
    let say = |what: String| {
        let _ = writeln!(io::stderr(), "manx: warning: {what}");
    };
    let image = program.image().display();
    match plan {
        Plan::Unchanged(Why::SwitchedOff) => {}
        Plan::Unchanged(Why::Obstacle(obstacle)) => say(format!("{image} {obstacle}: it runs unchanged")),
        Plan::Environment { obstacle, reported, .. } => say(format!(
            "{image} {obstacle}: it runs unchanged, but for variables that tell it of {}",
            if reported.count == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", reported.count) },
        )),
        Plan::Pass { .. } | Plan::Preload { .. } => {}
    }
    if let Some(warning) = plan.reported().and_then(cpus::ReportedCpus::warning) {
        say(warning);
    }
}
