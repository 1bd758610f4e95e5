//! The output of a victim, line by line: the protocol that `victims/victim.py` describes. A line
//! `many` reports several short operations at once.

use report::Histogram;
use std::collections::BTreeSet;

/// The figures that one copy of a victim has printed so far.
#[derive(Debug, Default)]
pub struct Output {
    /// The latency of each operation
    pub latencies: Histogram,
    /// The checksums of the results, each once
    pub checksums: BTreeSet<String>,
    /// When it began, and when its last operation ended, by the monotonic clock
    pub begin_ns: u64,
    pub last_ns: u64,
    /// CPU time of the measured part, once that is over
    pub cpu_ns: Option<u64>,
}

impl Output {
    /// Takes one line.
    ///
    /// # Errors
    /// It does not belong to the protocol.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{line}': '{text}' is no number"));
        match words[..] {
            // It is warm, and waits for the signal to begin.
            ["ready"] => {}
            ["begin", now] => {
                self.begin_ns = number(now)?;
                self.last_ns = self.begin_ns;
            }
            ["op", now, latency, checksum] => {
                self.last_ns = number(now)?;
                self.latencies.record(number(latency)?);
                if !self.checksums.contains(checksum) {
                    self.checksums.insert(checksum.to_owned());
                }
            }
            ["many", latency, count] => self.latencies.record_many(number(latency)?, number(count)?),
            ["done", now, cpu] => {
                self.last_ns = number(now)?;
                self.cpu_ns = Some(number(cpu)?);
            }
            _ => return Err(format!("'{line}': not what a victim says")),
        }
        Ok(())
    }

    /// Counts the operation that still runs at `now_ns` with the time that it has taken so far.
    pub fn cut(&mut self, now_ns: u64) {
        if self.begin_ns > 0 {
            self.latencies.record(now_ns.saturating_sub(self.last_ns));
            self.last_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.line(line).unwrap());
        output
    }

    #[test]
    fn operations_and_their_results_are_kept() {
        let all = output("ready\nbegin 100\nop 150 50 0a\nop 250 100 0a\nmany 70 2\ndone 260 300");
        assert_eq!((all.latencies.count(), all.latencies.summary().max_ns), (4, 100));
        assert_eq!((all.checksums.len(), all.begin_ns, all.last_ns, all.cpu_ns), (1, 100, 260, Some(300)));
    }

    #[test]
    fn one_that_is_cut_off_counts_with_what_it_has_taken() {
        let mut all = output("ready\nbegin 100\nop 150 50 0a");
        all.cut(1150);
        assert_eq!((all.latencies.count(), all.latencies.summary().max_ns), (2, 1000));
        let mut nothing = output("ready");
        nothing.cut(1150);
        assert_eq!(nothing.latencies.count(), 0);
    }

    #[test]
    fn anything_else_is_refused() {
        for line in ["", "op 1 2", "op a 2 3", "many 1", "hello"] {
            assert!(Output::default().line(line).is_err(), "{line}");
        }
    }
}
