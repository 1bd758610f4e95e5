//! What `manx run` does to a program, decided before anything is done.

use super::cpus::ReportedCpus;
use super::obstacle::{self, Obstacle};
use super::program::Program;
use super::{environment, libraries, library, variables};
use command::failure::Failure;
use preload_abi::SWITCH_VARIABLE;
use preload_abi::options::Options;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
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

/// What would be done, as text.
pub(super) fn describe(plan: &Plan, options: &Options<'_>, program: &Program) -> String {
    let mut text = String::new();
    write(plan, options, program, &mut text).expect("writing to a String");
    text
}

fn write(plan: &Plan, options: &Options<'_>, program: &Program, out: &mut String) -> std::fmt::Result {
    writeln!(out, "program      {}", program.image().display())?;
    let (_, before) = program.chain.split_last().expect("a chain holds at least the program");
    for script in before {
        writeln!(out, "  through    {}", script.display())?;
    }
    if let Some(loader) = program.elf.as_ref().and_then(|elf| elf.loader.as_ref()) {
        writeln!(out, "loader       {}", loader.display())?;
    }
    match plan {
        Plan::Unchanged(Why::SwitchedOff) => {
            return writeln!(out, "runs unchanged: {SWITCH_VARIABLE}=off is set");
        }
        Plan::Unchanged(Why::Obstacle(obstacle)) => {
            return writeln!(out, "runs unchanged: it {obstacle}");
        }
        Plan::Environment { obstacle, .. } => writeln!(out, "runs unchanged: it {obstacle}")?,
        Plan::Pass { .. } => {
            writeln!(out, "runs unchanged: not meant; what it starts is judged by its own name")?;
        }
        Plan::Preload { .. } => {}
    }
    for library in plan.libraries() {
        writeln!(out, "library      {}", library.display())?;
    }
    for (index, (name, value)) in plan.changes().iter().enumerate() {
        let head = if index == 0 { "environment" } else { "" };
        writeln!(out, "{head:11}  {name}={}", value.display())?;
    }
    match plan.reported() {
        Some(reported) => {
            writeln!(out, "CPUs         {}", reported.why())?;
            if let Some(warning) = reported.warning() {
                writeln!(out, "             {warning}")?;
            }
        }
        None => writeln!(out, "CPUs         as without Manx")?,
    }
    if matches!(plan, Plan::Environment { .. } | Plan::Pass { .. }) {
        return Ok(());
    }
    writeln!(out, "locks        {}", options.lock.word())?;
    if let Some(elf) = &program.elf {
        let preloaded = std::env::var_os(super::environment::PRELOAD_VARIABLE).unwrap_or_default();
        let found = libraries::find(program.image(), elf, &preloaded);
        writeln!(out)?;
        super::loops::describe(&found, options, out)?;
    }
    Ok(())
}
