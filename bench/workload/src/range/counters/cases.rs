//! The part `counters`: what an operation takes of the processor, by the number of threads.

use super::super::apart::run_apart;
use super::super::case::{COUNTERS, scaled};
use super::super::competitor::{Competitor, REFERENCE};
use super::super::plan::Plan;
use super::Source;
use crate::error::{Error, reason};
use crate::harness::{Bench, Case, Sample};
use std::time::Duration;

/// What counting is thought to take, with one lock: by the processor, and by callgrind.
const EXPECTED: Duration = Duration::from_millis(500);
const EXPECTED_EMULATED: Duration = Duration::from_secs(4);

impl Plan {
    /// Cycles, instructions and misses.
    pub(in crate::range) fn counters(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.setup.check {
            return Ok(());
        }
        let source = Source::of_this_machine();
        bench.note(source.note());
        let program = std::env::current_exe().map_err(|error| {
            Error::request(format!("this program's path: {}", reason(&error)), "mount /proc")
        })?;
        let competitors: Vec<Competitor> =
            Competitor::locks().filter(|lock| !self.setup.quick || *lock == REFERENCE).collect();
        let names: Vec<&str> = competitors.iter().map(|competitor| competitor.name()).collect();
        // Callgrind's numbers are the same every time.
        let (rounds, expected) = match source {
            Source::Callgrind => (1, EXPECTED_EMULATED),
            _ => (bench.resolution.pairs_min, EXPECTED),
        };
        for &threads in self.setup.threads.iter().filter(|&&threads| source.counts_threads(threads)) {
            let name = scaled(COUNTERS, threads);
            let case = Case { name: &name, variants: &names, expected };
            bench.rounds(case, rounds, |at, _| {
                let count = || source.count(&program, competitors[at], threads, self.setup.quick);
                let found = run_apart(competitors[at].leaks() && source == Source::Processor, count);
                let found =
                    found.map_err(|what| Error::failed(format!("{}, {COUNTERS}: {what}", names[at])))?;
                let values = found.values().map(|(name, value)| (name.to_owned(), value)).collect();
                Ok(Sample { values, output: None })
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::conclude;
    use super::*;
    use report::{Machine, Report};

    #[test]
    fn a_counter_that_was_not_read_is_a_dash() {
        let mut report = Report::new("range", Machine::default(), 0);
        let case = scaled(COUNTERS, 1);
        report.add(&case, "x", 0, &[("instructions_per_operation", 155.0)]);
        conclude(&mut report);
        assert_eq!(report.tables[0].title, case);
        assert_eq!(report.tables[0].rows, [["x", "1", "-", "155", "-"]]);
    }
}
