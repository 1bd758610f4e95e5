//! How far an experiment is: a bar on a terminal, elsewhere a line now and then; always on standard
//! error.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};
use workload::harness::Progress;

/// The bar's parts: what is measured, how far it is, which variant runs, and how long it will take.
const TEMPLATE: &str = "{prefix}  {bar:20} {pos}/{len}  {msg:30}  {eta_precise} left";
/// The same for an unknown number of steps.
const OPEN: &str = "{prefix}  {spinner} {msg:30}  {elapsed_precise}";

/// Without a terminal, the least time between two lines.
const LINES: Duration = Duration::from_secs(1);

/// Shows the steps of an experiment.
pub(super) struct Shown {
    bench: String,
    case: String,
    step: usize,
    bar: Option<ProgressBar>,
    terminal: bool,
    said: Option<Instant>,
}

impl Shown {
    pub(super) fn new(bench: &str) -> Shown {
        let terminal = std::io::stderr().is_terminal();
        Shown { bench: bench.into(), case: String::new(), step: 0, bar: None, terminal, said: None }
    }
}

impl Progress for Shown {
    fn begin(&mut self, what: &str, steps: Option<usize>) {
        (self.case, self.step) = (what.into(), 0);
        if self.terminal {
            let (bar, template) = match steps {
                Some(steps) => (ProgressBar::new(steps as u64), TEMPLATE),
                None => (ProgressBar::new_spinner(), OPEN),
            };
            let style = ProgressStyle::with_template(template).expect("the templates are checked by a test");
            self.bar = Some(bar.with_style(style.progress_chars("=> ")).with_prefix(what.to_owned()));
        }
    }

    fn step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(self.step as u64);
            bar.set_message(what.to_owned());
            bar.tick();
        } else if self.step == 0 || self.said.is_none_or(|said| said.elapsed() >= LINES) {
            self.said = Some(Instant::now());
            let text = format!("manx bench {}: {}: {what}\n", self.bench, self.case);
            // A failure to show progress does not end the experiment.
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
    fn the_bars_templates_are_some() {
        for template in [TEMPLATE, OPEN] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
