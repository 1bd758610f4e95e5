//! Programs one after the other, and each in all of its versions in turn, whatever fails.
//!
//! Invariants:
//! 1. A run that loses an update, or that prints what does not add up, is a failure and never a
//!    figure.
//! 2. A version that failed once is not run again for that program. What was measured of it before
//!    counts for nothing either: it is left out of tables and verdicts, with a note that says why.
//! 3. If the program as it is fails, there is nothing to compare with: it ends for that program,
//!    and the rest goes on.
//! 4. A missing package leaves out the programs that need it, with a note that names it. A failure
//!    of Manx, or of a program as it is, is the experiment's failure; one of a rival is not.

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use report::{Compared, Report};
use std::time::Duration;

/// A version, as far as failures concern it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant<'a> {
    /// What tables call it
    pub name: &'a str,
    /// What the others are compared with
    pub is_plain: bool,
    /// A failure is the experiment's
    pub is_ours: bool,
}

/// Makes each program ready and lets `compare` measure it. A program that is not installed is noted
/// and left out, and what fails and should not is the error once all have been tried.
pub(crate) fn each<'a, S: Copy, R>(
    subjects: &[S],
    name: impl Fn(S) -> &'a str,
    bench: &mut Bench,
    ready: impl Fn(S) -> Result<R, Error>,
    mut compare: impl FnMut(S, &R, &mut Bench, &mut Vec<String>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut missing, mut failures, mut measured) = (None, Vec::new(), 0);
    for &subject in subjects {
        match ready(subject) {
            Ok(program) => {
                measured += 1;
                compare(subject, &program, bench, &mut failures)?;
            }
            Err(Error::Missing { what, help }) => {
                let first_line = what.lines().next().unwrap_or_default();
                bench.note(format!("{}: left out: {first_line}: {help}", name(subject)));
                missing.get_or_insert(Error::Missing { what, help });
            }
            Err(error) => return Err(error),
        }
    }
    bench.complete();
    match (failures.is_empty(), measured, missing) {
        (false, ..) => Err(Error::Failed { what: "programs failed".into(), stderr: failures.join("\n") }),
        (true, 0, Some(missing)) => Err(missing),
        _ => Ok(()),
    }
}

/// One program in all its versions.
pub(crate) struct Turns<'a> {
    /// The program's name
    pub case: &'a str,
    /// The versions
    pub entrants: &'a [Entrant<'a>],
    /// The number of rounds; `None`: until the ratios that are watched are known
    pub rounds: Option<usize>,
    /// About how long a run takes
    pub expected: Duration,
}

impl Turns<'_> {
    /// Takes them, `run` being given a version's index and the round. What failed is noted, and
    /// listed in `failures` if it is the experiment's failure.
    pub(crate) fn take(
        &self,
        bench: &mut Bench,
        failures: &mut Vec<String>,
        watch: impl Fn(&Report) -> Vec<Compared>,
        mut run: impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        let names: Vec<&str> = self.entrants.iter().map(|entrant| entrant.name).collect();
        let mut broken: Vec<Option<String>> = vec![None; names.len()];
        let case = Case { name: self.case, variants: &names, expected: self.expected };
        let once = |at: usize, round: usize| {
            if broken[at].is_some() {
                return Ok(Sample::default()); // Invariant 2
            }
            match run(at, round) {
                Err(Error::Failed { what, stderr }) => {
                    broken[at] = Some(why(&what, &stderr));
                    if self.entrants[at].is_plain {
                        return Err(Error::Failed { what, stderr }); // Invariant 3
                    }
                    Ok(Sample::default())
                }
                other => other,
            }
        };
        let ended = match self.rounds {
            Some(rounds) => bench.rounds(case, rounds, once),
            None => bench.compare(case, watch, once),
        };
        for (entrant, reason) in self.entrants.iter().zip(&broken) {
            if let Some(reason) = reason {
                self.failed(entrant, reason, bench, failures);
            }
        }
        match ended {
            Err(Error::Failed { .. }) => Ok(()),
            other => other,
        }
    }

    /// Invariants 2 and 4, for a version that has failed.
    fn failed(&self, entrant: &Entrant, reason: &str, bench: &mut Bench, failures: &mut Vec<String>) {
        let text = format!("{}: {} failed: {reason}", self.case, entrant.name);
        bench.report.runs.retain(|run| !(run.case == self.case && run.variant == entrant.name));
        if entrant.is_ours {
            failures.push(text.clone());
        }
        bench.note(text);
    }

    /// The same for a version that has failed after its last run.
    ///
    /// # Errors
    /// An error that is no failure of the version.
    pub(crate) fn failed_at_its_end(
        &self,
        at: usize,
        error: Error,
        bench: &mut Bench,
        failures: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Error::Failed { what, stderr } = error else { return Err(error) };
        self.failed(&self.entrants[at], &why(&what, &stderr), bench, failures);
        Ok(())
    }
}

/// How it ended and the last that it said, in one line.
fn why(what: &str, stderr: &str) -> String {
    /// The number of last lines of what a program says that tell why: what went wrong, and what to
    /// do.
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
