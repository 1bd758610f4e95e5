//! `manx run`: becomes the program, with the preload library in it.
//!
//! Order of what happens, and of what is complained about first: the settings are put together
//! ([`settings`]), the program is found and followed to what really runs ([`program`]), what would
//! keep the library out is looked for ([`obstacle`]), the library is found ([`library`]), the
//! environment is composed ([`environment`], [`cpus`], [`variables`]), old entries of the user's
//! cache folder are removed ([`cache`]), and the process executes the program ([`command::exec`]).
//! Nothing is forked and nothing stays behind, so signals, exit status, terminal and standard
//! streams are the program's own.

pub mod cache;
pub mod config;
pub mod cpus;
pub mod dry;
pub mod elf;
pub mod environment;
pub mod libraries;
pub mod library;
pub mod loops;
pub mod obstacle;
pub mod program;
pub mod script;
pub mod settings;
pub mod variables;

use command::exec;
use command::failure::Failure;
use command::sigpipe::{Inherited, print};
use preload_abi::SWITCH_VARIABLE;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// The arguments of `manx run`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "manx run [OPTIONS] [--] PROGRAM [ARGS]...", after_long_help = more_help())]
pub struct Args {
    #[command(flatten)]
    flags: settings::Flags,

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
    format!("{FILTERS}\n\n{}\n\n{ENVIRONMENT}\n\n{}", config::DOCUMENTATION, command::failure::EXIT_CODES)
}

/// Becomes the program.
///
/// # Errors
/// Whatever keeps the program from being run, with its exit code.
pub fn run(args: &Args, inherited: Inherited) -> Result<u8, Failure> {
    let settings = settings::Settings::gather(&args.flags)?;
    let program = program::Program::find(&args.command[0])?;
    let plan = Plan::make(&settings, &program)?;
    if args.dry_run {
        return print(&dry::describe(&plan, &settings, &program)).map(|()| 0);
    }
    if !settings.quiet {
        warn(&plan, &program);
    }
    let changes = match &plan {
        Plan::Unchanged(_) => &[][..],
        Plan::Pass { changes, .. } | Plan::Environment { changes, .. } | Plan::Preload { changes, .. } => {
            changes
        }
    };
    if matches!(plan, Plan::Preload { .. }) && settings.uses_cache() {
        cache::remove_unused();
    }
    inherited.restore();
    Err(exec::exec(program.file(), &args.command, changes))
}

/// Says what will not be as the user may think. If nobody hears it, the program runs all the same.
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

/// What is to be done to the program.
#[derive(Debug)]
enum Plan {
    /// Nothing.
    Unchanged(Why),
    /// The libraries are preloaded, but do nothing in this program, which is not meant: what it
    /// starts may be.
    Pass { libraries: Vec<PathBuf>, changes: Vec<(&'static str, OsString)> },
    /// Nothing can be preloaded, but it is told of its CPUs by its environment.
    Environment {
        obstacle: obstacle::Obstacle,
        reported: cpus::ReportedCpus,
        changes: Vec<(&'static str, OsString)>,
    },
    /// The libraries are preloaded by these changes to the environment.
    Preload {
        libraries: Vec<PathBuf>,
        reported: Option<cpus::ReportedCpus>,
        changes: Vec<(&'static str, OsString)>,
    },
}

/// Why nothing is done to a program.
#[derive(Debug)]
enum Why {
    /// `MANX=off`.
    SwitchedOff,
    /// It cannot be done.
    Obstacle(obstacle::Obstacle),
}

impl Plan {
    fn make(settings: &settings::Settings, program: &program::Program) -> Result<Plan, Failure> {
        if std::env::var_os(SWITCH_VARIABLE).as_deref() == Some(OsStr::new("off")) {
            return Ok(Plan::Unchanged(Why::SwitchedOff));
        }
        let selected = program.is_selected(&settings.filters());
        // The children inherit the variables, so a program that is not meant is given none.
        let reported = if selected { cpus::ReportedCpus::by(settings) } else { None };
        let counts = reported.as_ref().map(|reported| reported.environment(settings)).unwrap_or_default();
        if let Some(obstacle) = obstacle::find(program) {
            return Ok(match reported {
                Some(reported) if !counts.is_empty() => {
                    Plan::Environment { obstacle, reported, changes: counts }
                }
                _ => Plan::Unchanged(Why::Obstacle(obstacle)),
            });
        }
        let mut libraries = vec![library::find()?];
        if settings.wants_requests() {
            libraries.push(library::requests(&libraries[0])?);
        }
        let mut changes = environment::compose(settings, program, &libraries)?;
        if !selected {
            return Ok(Plan::Pass { libraries, changes });
        }
        changes.extend(counts);
        Ok(Plan::Preload { libraries, reported, changes })
    }

    /// How many CPUs the program is told of, if it is.
    fn reported(&self) -> Option<&cpus::ReportedCpus> {
        match self {
            Plan::Unchanged(_) | Plan::Pass { .. } => None,
            Plan::Environment { reported, .. } => Some(reported),
            Plan::Preload { reported, .. } => reported.as_ref(),
        }
    }
}
