//! How far an experiment is: a bar on a terminal, elsewhere a line now and then; always on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use workload::harness::Progress;

/// The bar's parts: what is measured, how far it is, which variant runs, and how long it will take.
const TEMPLATE: &str = "{prefix}  {bar:20} {pos}/{len}  {msg:20}  {eta_precise} left";

/// Without a terminal, lines come no faster than this.
const LINES: Duration = Duration::from_secs(1);

/// Shows the steps of an experiment.
pub(super) struct Shown {
    bench: String,
    case: String,
    steps: usize,
    step: usize,
    bar: Option<ProgressBar>,
    terminal: bool,
    said: Option<Instant>,
}

impl Shown {
    pub(super) fn new(bench: &str) -> Shown {
        let terminal = std::io::stderr().is_terminal();
        Shown { bench: bench.into(), case: String::new(), steps: 0, step: 0, bar: None, terminal, said: None }
    }
}

impl Progress for Shown {
    fn begin(&mut self, what: &str, steps: usize) {
        (self.case, self.steps, self.step) = (what.into(), steps, 0);
        if self.terminal {
            let style = ProgressStyle::with_template(TEMPLATE).expect("the template is checked by a test");
            let bar = ProgressBar::new(steps as u64).with_style(style.progress_chars("=> "));
            self.bar = Some(bar.with_prefix(what.to_owned()));
        }
    }

    fn step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.step as u64);
            bar.set_message(what.to_owned());
            bar.tick();
        } else if self.step == 0 || self.said.is_none_or(|said| said.elapsed() >= LINES) {
            self.said = Some(Instant::now());
            let (number, steps) = (self.step + 1, self.steps);
            let text = format!("manx bench {}: {}: {number}/{steps} {what}\n", self.bench, self.case);
            // Progress that nobody can see is no reason to stop.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        self.step += 1;
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_template_is_one() {
        assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
    }
}
