//! What failing tests say, so that it stands beside the table at the end: CI may keep the end of
//! the output only.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::outcome::Result;
use crate::process::run_and_look;

/// The lines that are kept.
#[derive(Default)]
pub struct Failures {
    inside: bool,
    lines: Vec<String>,
}

impl Failures {
    /// The most lines of a command.
    const LINES_MAX: usize = 60;

    /// Runs a command that runs tests.
    ///
    /// # Errors
    /// If it fails; the text has what the failing tests say.
    pub fn of(command: &mut Command, limit: Duration) -> Result {
        let failures = Arc::new(Mutex::new(Failures::default()));
        let seen = Arc::clone(&failures);
        let ran = run_and_look(command, limit, move |line| seen.lock().unwrap().look(line));
        ran.map_err(|why| format!("{why}\n{}", failures.lock().unwrap().lines.join("\n")))
    }

    /// Keeps what lies between `failures:` and `test result:`.
    fn look(&mut self, line: &str) {
        self.inside = match line {
            "failures:" => true,
            line if line.starts_with("test result:") => false,
            _ => self.inside,
        };
        if self.inside && !line.is_empty() && self.lines.len() < Self::LINES_MAX {
            self.lines.push(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_failing_tests_is_kept_and_nothing_else() {
        let mut failures = Failures::default();
        let printed = "test one ... ok\ntest two ... FAILED\n\nfailures:\n\n---- two stdout ----\nleft: 4\n\nfailures:\n    two\n\n\
            test result: FAILED. 1 passed\n\nrunning 0 tests";
        printed.lines().for_each(|line| failures.look(line));
        assert_eq!(failures.lines, ["failures:", "---- two stdout ----", "left: 4", "failures:", "    two"]);
    }
}
