//! A list of steps, each timed and with a verdict, that goes on after a failure and ends with a
//! table.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::outcome::Result;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It did what it should.
    Passed,
    /// It did not, for this reason.
    Failed(String),
    /// It could not be done here, for this reason.
    Skipped(String),
}

impl From<Result> for Verdict {
    fn from(result: Result) -> Verdict {
        match result {
            Ok(()) => Verdict::Passed,
            Err(why) => Verdict::Failed(why),
        }
    }
}

struct Row {
    name: String,
    verdict: Verdict,
    took: Duration,
}

/// The steps done so far.
pub struct Steps {
    rows: Vec<Row>,
    begin: Instant,
    limit: Duration,
}

impl Steps {
    /// No steps yet; none is begun once `limit` is over.
    pub fn new(limit: Duration) -> Steps {
        Steps { rows: Vec::new(), begin: Instant::now(), limit }
    }

    /// Does one step and keeps its verdict.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Verdict) {
        self.timed_step(name, || {
            let begin = Instant::now();
            (work(), begin.elapsed())
        });
    }

    /// Does one step and keeps its verdict, and how long it says that it took.
    pub fn timed_step(&mut self, name: &str, work: impl FnOnce() -> (Verdict, Duration)) {
        println!("\n== {name}");
        let (verdict, took) = if self.begin.elapsed() < self.limit {
            work()
        } else {
            let minutes = self.limit.as_secs() / 60;
            let why = format!("not begun: the {minutes} minutes for all steps are over");
            (Verdict::Failed(why), Duration::ZERO)
        };
        let row = Row { name: name.into(), verdict, took };
        if let Verdict::Failed(why) = &row.verdict {
            // The line has the beginning only.
            println!("{why}");
        }
        println!("== {}", row.line(0));
        self.rows.push(row);
    }

    /// Prints the table and the sums.
    ///
    /// # Errors
    /// If a step failed.
    pub fn finish(self) -> Result {
        println!("\n{}{}", self.failures(), self.table());
        match self.rows.iter().filter(|row| matches!(row.verdict, Verdict::Failed(_))).count() {
            0 => Ok(()),
            _ => Err(String::new()),
        }
    }

    /// All that failed steps say, without the lines of the table.
    fn failures(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            if let Verdict::Failed(why) = &row.verdict
                && let Some((_, details)) = why.split_once('\n')
            {
                let _ = writeln!(text, "== {} failed\n{}\n", row.name, details.trim_end());
            }
        }
        text
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            let _ = writeln!(text, "{}", row.line(width));
        }
        let count = |word| self.rows.iter().filter(|row| row.word() == word).count();
        let (passed, failed, skipped) = (count("passed"), count("failed"), count("skipped"));
        let _ = writeln!(text, "in {:.0} s", self.begin.elapsed().as_secs_f64());
        let _ = write!(text, "{passed} passed, {failed} failed, {skipped} skipped");
        text
    }
}

impl Row {
    fn word(&self) -> &'static str {
        match self.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed(_) => "failed",
            Verdict::Skipped(_) => "skipped",
        }
    }

    fn line(&self, width: usize) -> String {
        let why = match &self.verdict {
            Verdict::Passed => "",
            Verdict::Failed(why) | Verdict::Skipped(why) => why.lines().next().unwrap_or_default(),
        };
        let took = self.took.as_secs_f64();
        format!("{:7} {took:7.1} s  {:width$}  {why}", self.word(), self.name).trim_end().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_failure_does_not_stop_the_rest_and_the_sums_come_last() {
        let mut steps = Steps::new(LONG);
        steps.step("one", || Verdict::Failed("it broke\nwith details".into()));
        steps.step("second", || Verdict::Passed);
        steps.step("third", || Verdict::Skipped("no compiler".into()));
        let table = steps.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("failed") && lines[0].ends_with("one     it broke"), "{table}");
        assert!(lines[1].starts_with("passed") && lines[1].ends_with("second"), "{table}");
        assert!(lines[2].starts_with("skipped") && lines[2].ends_with("third   no compiler"), "{table}");
        assert_eq!(lines.last(), Some(&"1 passed, 1 failed, 1 skipped"));
        assert_eq!(steps.failures(), "== one failed\nwith details\n\n");
        assert!(steps.finish().is_err());
    }

    #[test]
    fn skipped_steps_are_no_failure() {
        let mut steps = Steps::new(LONG);
        steps.step("only", || Verdict::Skipped("not here".into()));
        assert_eq!(steps.finish(), Ok(()));
    }

    #[test]
    fn nothing_begins_after_the_limit_and_that_is_a_failure() {
        let mut steps = Steps::new(Duration::ZERO);
        steps.step("late", || unreachable!("it was begun"));
        assert!(steps.table().ends_with("0 passed, 1 failed, 0 skipped"));
    }
}
