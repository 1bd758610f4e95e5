//! Real databases under more threads than CPUs: as they are, under `manx run`, and with others' lock libraries.
//!
//! 1. A run that loses an update, or that prints what does not add up, is a failure and never a figure.
//! 2. A version that failed once is not run again for that program. What was measured of it before counts for nothing
//!    either: it is left out of tables and verdicts, with a note that says why.
//! 3. If the program as it is fails, there is nothing to compare with: it ends for that program, and the rest goes on.
//! 4. A missing package leaves out the programs that need it, with a note that names it. A failure of Manx, or of a
//!    program as it is, is the experiment's failure; one of a rival is not.

pub mod catalogue;
mod conclude;
pub mod version;

pub use catalogue::{SUBJECTS, Subject, choose};
pub use conclude::conclude;
pub use version::{AGAIN, AS_IS, MANX, Version};

use crate::engine::{self, Compiler, Load, Output, Program};
use crate::error::Error;
use crate::harness::{Bench, Sample};
use report::Report;
use std::path::PathBuf;
use std::time::Duration;

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is measured
    pub subjects: Vec<&'static Subject>,
    /// In which versions
    pub versions: Vec<Version>,
    /// What compiles the drivers
    pub compiler: Compiler,
    /// `manx` itself
    pub manx: PathBuf,
    /// Rounds of each comparison
    pub repeats: usize,
    /// Measured time of a run
    pub seconds: f64,
    /// Threads of each program
    pub threads: usize,
    /// The CPUs to run on, as a list
    pub cpus: String,
    /// The target that each operation is marked with, in microseconds, if there is one
    pub slo_us: Option<u64>,
}

impl Setup {
    fn load(&self) -> Load {
        Load {
            threads: self.threads,
            seconds: self.seconds,
            warm_up: (self.seconds / 5.0).min(0.5),
            think_us: 0.0,
            cpus: self.cpus.clone(),
            boost: 0,
            lowered: false,
            window: None,
            seed: 1,
            more: self.slo_us.map(|us| format!("--slo-us={us}")).into_iter().collect(),
        }
    }
}

/// Loading, stalls and the self-check: so much more than it was asked for may a run take. One that takes longer hangs.
const SLACK: Duration = Duration::from_secs(15);

/// Measures each program in all versions; what was found is in `bench.report`.
///
/// # Errors
/// If nothing could be measured, if a program failed that should not (Invariant 4), or if the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    bench.note(format!("{} threads on CPUs {}, no think time", setup.threads, setup.cpus));
    if let Some(us) = setup.slo_us {
        bench.note(format!("each operation is an epoch: 99 % within {us} µs"));
    }
    let (mut missing, mut failures, mut measured) = (None, Vec::new(), 0);
    for subject in &setup.subjects {
        match subject.program(&setup.compiler) {
            Ok(program) => {
                measured += 1;
                compare(subject, &program, setup, bench, &mut failures)?;
            }
            Err(Error::Missing { what, help }) => {
                bench.note(format!("{}: left out: {help}", subject.name));
                missing.get_or_insert(Error::Missing { what, help });
            }
            Err(error) => return Err(error),
        }
    }
    let versions = versions(&bench.report);
    if !versions.is_empty() {
        bench.note(format!("measured: {}", versions.join(", ")));
    }
    bench.complete();
    match (failures.is_empty(), measured, missing) {
        (false, ..) => Err(Error::Failed { what: "programs failed".into(), stderr: failures.join("\n") }),
        (true, 0, Some(missing)) => Err(missing),
        _ => Ok(()),
    }
}

/// What was measured, in the programs' own words but for their dates, each once.
fn versions(report: &Report) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for output in report.runs.iter().filter_map(|run| run.output.as_ref()) {
        let Ok(Output { version, .. }) = Output::parse(output.get()) else { continue };
        let short = version.split(": ").next().unwrap_or_default();
        if !versions.iter().any(|known| known == short) {
            versions.push(short.to_owned());
        }
    }
    versions
}

/// One program in all versions. What failed is noted, and listed in `failures` if it is the experiment's failure.
fn compare(
    subject: &Subject,
    program: &Program,
    setup: &Setup,
    bench: &mut Bench,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    let load = setup.load();
    let limit = load.expected() * 4 + SLACK;
    let names: Vec<&str> = setup.versions.iter().map(|version| version.name.as_str()).collect();
    let mut broken: Vec<Option<String>> = vec![None; names.len()];
    let ended = bench.compare(subject.name, &names, setup.repeats, load.expected(), |at, round| {
        if broken[at].is_some() {
            return Ok(Sample::default()); // Invariant 2
        }
        let version = &setup.versions[at];
        let load = Load { seed: round as u64 + 1, ..load.clone() };
        match engine::run_within(program, version.start(&setup.manx), &load, limit) {
            Err(Error::Failed { what, stderr }) => {
                broken[at] = Some(why(&what, &stderr));
                if version.is_plain() {
                    return Err(Error::Failed { what, stderr }); // Invariant 3
                }
                Ok(Sample::default())
            }
            other => other,
        }
    });
    for (version, reason) in setup.versions.iter().zip(&broken) {
        let Some(reason) = reason else { continue };
        let text = format!("{}: {} failed: {reason}", subject.name, version.name);
        bench.report.runs.retain(|run| !(run.case == subject.name && run.variant == version.name));
        if version.is_ours() {
            failures.push(text.clone());
        }
        bench.note(text);
    }
    match ended {
        Err(Error::Failed { .. }) => Ok(()),
        other => other,
    }
}

/// How it ended and the last that it said, in one line.
fn why(what: &str, stderr: &str) -> String {
    /// Of what a program says at its end, so many lines tell why: what went wrong, and what to do.
    const LINES: usize = 2;
    let what = what.rsplit_once('/').map_or(what, |(_, name)| name);
    let said: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &said[said.len().saturating_sub(LINES)..] {
        [] => what.to_owned(),
        last => format!("{what} ({})", last.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_in_one_line() {
        assert_eq!(why("/cache/1a/lmdb: was ended by signal 11", ""), "lmdb: was ended by signal 11");
        let told = why("manx: ended with status 125", "noise\n\nmanx: x.so: no such file\n  install it\n");
        assert_eq!(told, "manx: ended with status 125 (manx: x.so: no such file; install it)");
    }
}
