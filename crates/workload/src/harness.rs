//! Comparing variants within one run: in turn, round after round, within a budget of time.
//!
//! 1. Every round runs every variant once. Round r begins with variant r (modulo their number), so that
//!    none always follows the same other one or the same moment of a slow machine.
//! 2. A round is begun only if the budget allows for all of it; the first one is always tried unless the
//!    budget is spent. Samples of a variant with the same round number belong together.
//! 3. What was measured stays in the report, whatever happens later.

use crate::error::Error;
use crate::interrupt;
use report::{Machine, Report, Run};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whoever shows how far an experiment is.
pub trait Progress {
    /// So many steps will follow.
    fn begin(&mut self, what: &str, steps: usize);
    /// The next step begins.
    fn step(&mut self, what: &str);
    /// The steps are over.
    fn end(&mut self);
}

/// Shows nothing.
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _what: &str, _steps: usize) {}
    fn step(&mut self, _what: &str) {}
    fn end(&mut self) {}
}

/// The order of `variants` in one round (Invariant 1).
pub fn order(variants: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..variants).map(move |position| (position + round) % variants)
}

/// What one run of a variant says.
#[derive(Debug, Default)]
pub struct Sample {
    /// Figures by name
    pub values: BTreeMap<String, f64>,
    /// The program's own output, if it is JSON
    pub output: Option<Box<RawValue>>,
}

impl Sample {
    /// A sample of a few figures.
    pub fn of<const N: usize>(values: [(&str, f64); N]) -> Sample {
        Sample {
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            output: None,
        }
    }
}

/// An experiment while it runs.
pub struct Bench<'a> {
    /// What has been measured so far
    pub report: Report,
    progress: &'a mut dyn Progress,
    started: Instant,
    budget: Option<Duration>,
    complete: bool,
}

impl<'a> Bench<'a> {
    /// Begins; with a `budget` no round is begun that would exceed it.
    pub fn new(
        name: &str,
        machine: Machine,
        budget: Option<Duration>,
        progress: &'a mut dyn Progress,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut report = Report::new(name, machine, now);
        report.quick = budget.is_some();
        if report.quick {
            report.notes.push("quick: a smoke check, not a measurement".into());
        }
        Bench { report, progress, started: Instant::now(), budget, complete: false }
    }

    /// Something that the reader must know; said once.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.report.notes.contains(&text) {
            self.report.notes.push(text);
        }
    }

    /// True if so much time is left.
    pub fn allows(&self, needed: Duration) -> bool {
        self.budget.is_none_or(|budget| self.started.elapsed() + needed <= budget)
    }

    /// Runs `variants` in turn for `rounds` rounds. `expected` is what one run is thought to take.
    ///
    /// # Errors
    /// The first error of `run`, and [`Error::Interrupted`].
    pub fn compare(
        &mut self,
        case: &str,
        variants: &[&str],
        rounds: usize,
        expected: Duration,
        run: impl FnMut(usize, usize) -> Result<Sample, Error>,
    ) -> Result<(), Error> {
        self.compare_until(case, variants, rounds, expected, run, |_, _| false)
    }

    /// The same, but no round follows one after which `enough` says so; it is told how many rounds there were.
    ///
    /// # Errors
    /// As [`Bench::compare`].
    pub fn compare_until(
        &mut self,
        case: &str,
        variants: &[&str],
        rounds: usize,
        expected: Duration,
        mut run: impl FnMut(usize, usize) -> Result<Sample, Error>,
        mut enough: impl FnMut(&Report, usize) -> bool,
    ) -> Result<(), Error> {
        self.progress.begin(case, rounds * variants.len());
        let result = self.rounds(case, variants, rounds, expected, &mut run, &mut enough);
        self.progress.end();
        result
    }

    fn rounds(
        &mut self,
        case: &str,
        variants: &[&str],
        rounds: usize,
        mut expected: Duration,
        run: &mut impl FnMut(usize, usize) -> Result<Sample, Error>,
        enough: &mut impl FnMut(&Report, usize) -> bool,
    ) -> Result<(), Error> {
        for round in 0..rounds {
            if !self.allows(expected * variants.len() as u32) {
                let done = if round == 0 { "left out" } else { "cut short" };
                self.note(format!("{case}: {done} for want of time, after {round} of {rounds} rounds"));
                return Ok(());
            }
            for variant in order(variants.len(), round) {
                if interrupt::requested() {
                    return Err(Error::Interrupted);
                }
                self.progress.step(variants[variant]);
                let begun = Instant::now();
                let sample = run(variant, round)?;
                expected = expected.max(begun.elapsed());
                self.report.runs.push(Run {
                    case: case.into(),
                    variant: variants[variant].into(),
                    round,
                    values: sample.values,
                    output: sample.output,
                });
            }
            if enough(&self.report, round + 1) {
                break;
            }
        }
        Ok(())
    }

    /// All that was to be measured was tried: an error that still follows is a finding, and no early end.
    pub fn complete(&mut self) {
        self.complete = true;
    }

    /// The report, with its last words.
    pub fn finish(mut self, result: &Result<(), Error>) -> Report {
        self.report.wall_s = self.started.elapsed().as_secs_f64();
        if result.is_err() && !self.complete {
            self.report.interrupted = true;
            self.note("ended early: what follows is what was measured until then");
        }
        self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(progress: &mut Silent, budget: Option<Duration>) -> Bench<'_> {
        Bench::new("b", Machine::default(), budget, progress)
    }

    #[test]
    fn every_round_runs_every_variant_once_and_the_start_rotates() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let mut ran = Vec::new();
        let result = bench.compare("c", &["A", "B", "C"], 4, Duration::ZERO, |variant, round| {
            ran.push((round, variant));
            Ok(Sample::of([("x", (round * 10 + variant) as f64)]))
        });
        assert!(result.is_ok());
        let variants: Vec<usize> = ran.iter().map(|&(_, variant)| variant).collect();
        assert_eq!(variants, [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        // Samples come back by round, whatever the order within it was.
        assert_eq!(bench.report.values("c", "B", "x"), [1.0, 11.0, 21.0, 31.0]);
    }

    #[test]
    fn an_error_ends_it_and_keeps_what_was_measured() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, None);
        let result =
            bench.compare("c", &["A", "B"], 3, Duration::ZERO, |variant, round| match (round, variant) {
                (1, 0) => Err(Error::request("broken", "")),
                _ => Ok(Sample::of([("x", 1.0)])),
            });
        assert!(result.is_err());
        assert_eq!(bench.report.runs.len(), 3);
        assert!(bench.finish(&result).interrupted);
    }

    #[test]
    fn a_round_that_would_exceed_the_budget_is_not_begun() {
        let mut progress = Silent;
        let mut bench = bench(&mut progress, Some(Duration::from_secs(3600)));
        let count = |bench: &mut Bench, case: &str, seconds| {
            bench
                .compare(case, &["A", "B"], 5, Duration::from_secs(seconds), |_, _| Ok(Sample::default()))
                .unwrap();
            bench.report.runs.iter().filter(|run| run.case == case).count()
        };
        assert_eq!(count(&mut bench, "fits", 1), 10);
        assert_eq!(count(&mut bench, "too long", 1801), 0);
        assert!(bench.report.notes.iter().any(|note| note.contains("too long: left out")));
    }
}
