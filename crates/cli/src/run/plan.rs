//! What `manx run` does to a program, decided before anything is done.

use super::cpus::ReportedCpus;
use super::obstacle::{self, Obstacle};
use super::program::Program;
use super::{environment, library, variables};
use command::failure::Failure;
use preload_abi::SWITCH_VARIABLE;
use preload_abi::options::Options;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A variable of the environment, and its new value.
type Change = (&'static str, OsString);

/// What is to be done to the program.
#[derive(Debug)]
pub(super) enum Plan {
    /// Nothing.
    Unchanged(Why),
    /// The libraries are preloaded, but do nothing in this program, which is not meant: programs
    /// that it starts may be.
    Pass { libraries: Vec<PathBuf>, changes: Vec<Change> },
    /// Nothing can be preloaded, but variables report its CPUs to it.
    Environment { obstacle: Obstacle, reported: ReportedCpus, changes: Vec<Change> },
    /// The libraries are preloaded by these changes to the environment.
    Preload { libraries: Vec<PathBuf>, reported: Option<ReportedCpus>, changes: Vec<Change> },
}

/// Why nothing is done to a program.
#[derive(Debug)]
pub(super) enum Why {
    /// `MANX=off`.
    SwitchedOff,
    /// It cannot be done.
    Obstacle(Obstacle),
}

impl Plan {
    pub(super) fn make(options: &Options<'_>, program: &Program) -> Result<Plan, Failure> {
        if std::env::var_os(SWITCH_VARIABLE).as_deref() == Some(OsStr::new("off")) {
            return Ok(Plan::Unchanged(Why::SwitchedOff));
        }
        let selected = program.is_selected(&options.filters());
        // Children inherit the variables, so a program that is not meant gets none.
        let reported = if selected { ReportedCpus::by(options) } else { None };
        let counts = reported.as_ref().map(|cpus| variables::environment(cpus, options)).unwrap_or_default();
        if let Some(obstacle) = obstacle::find(program) {
            return Ok(match reported {
                Some(reported) if !counts.is_empty() => {
                    Plan::Environment { obstacle, reported, changes: counts }
                }
                _ => Plan::Unchanged(Why::Obstacle(obstacle)),
            });
        }
        let mut libraries = vec![library::find()?];
        if options.slo.requests().is_some() {
            libraries.push(library::requests(&libraries[0])?);
        }
        let mut changes = environment::compose(options, program, &libraries)?;
        if !selected {
            return Ok(Plan::Pass { libraries, changes });
        }
        changes.extend(counts);
        Ok(Plan::Preload { libraries, reported, changes })
    }

    /// The variables to set in the program's environment.
    pub(super) fn changes(&self) -> &[Change] {
        match self {
            Plan::Unchanged(_) => &[],
            Plan::Pass { changes, .. }
            | Plan::Environment { changes, .. }
            | Plan::Preload { changes, .. } => changes,
        }
    }

    /// The libraries to preload.
    pub(super) fn libraries(&self) -> &[PathBuf] {
        match self {
            Plan::Unchanged(_) | Plan::Environment { .. } => &[],
            Plan::Pass { libraries, .. } | Plan::Preload { libraries, .. } => libraries,
        }
    }

    /// The number of CPUs that is reported to the program, if one is.
    pub(super) fn reported(&self) -> Option<&ReportedCpus> {
        match self {
            Plan::Unchanged(_) | Plan::Pass { .. } => None,
            Plan::Environment { reported, .. } => Some(reported),
            Plan::Preload { reported, .. } => reported.as_ref(),
        }
    }
}
