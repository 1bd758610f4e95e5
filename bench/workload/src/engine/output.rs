//! What an engine prints: one JSON object, checked before it is believed.

use crate::harness::Sample;
use report::{Counts, Histogram};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The format that is understood.
const FORMAT: u32 = 1;

/// An engine's result.
#[derive(Clone, Debug, Deserialize)]
pub struct Output {
    /// [`FORMAT`]
    format: u32,
    /// The engine's name
    pub engine: String,
    /// What was measured, in its own words
    pub version: String,
    /// Updates that the engine looked for at its end, and found; 0 for an engine that keeps nothing
    #[serde(default)]
    pub verified_updates: u64,
    /// Operations that were begun in a second of the measured time
    pub throughput_per_s: f64,
    /// Operations that failed
    pub errors: u64,
    /// Repetitions after a write conflict
    pub conflicts: u64,
    /// The first failure's words
    pub first_error: String,
    /// The slowest thread's operations over the mean of all threads
    pub slowest_of_mean: f64,
    /// The slowest thread's operations over the fastest one's
    pub slowest_of_fastest: f64,
    /// Each thread
    pub threads: Vec<Thread>,
    /// Latencies of all operations
    pub all: Counts,
    /// Latencies of threads of usual niceness
    pub normal: Counts,
    /// Latencies of boosted threads
    pub boosted: Counts,
    /// Latencies of threads that stay on little CPUs, if the engine was told which CPUs these are
    #[serde(default)]
    pub little: Option<Counts>,
    /// Latencies of the other threads then
    #[serde(default)]
    pub big: Option<Counts>,
    /// By the second in which they began
    pub seconds: Vec<Second>,
}

/// One thread's part.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Thread {
    /// One of the boosted ones
    pub boosted: bool,
    /// It stays on a little CPU
    #[serde(default)]
    pub little: bool,
    /// Operations it ended
    pub operations: u64,
    /// How many of these took longer than they were to, if the engine was told how long they may
    /// take
    #[serde(default)]
    pub missed: Option<u64>,
}

/// One second's latencies.
#[derive(Clone, Debug, Deserialize)]
pub struct Second {
    /// Of threads of usual niceness
    pub normal: Counts,
    /// Of boosted threads
    pub boosted: Counts,
}

impl Second {
    /// Of all threads.
    ///
    /// # Errors
    /// If the counts do not add up.
    pub fn all(&self) -> Result<Histogram, String> {
        let mut all = Histogram::try_from(&self.normal)?;
        all.merge(&Histogram::try_from(&self.boosted)?);
        Ok(all)
    }
}

impl Output {
    /// Reads what an engine printed.
    ///
    /// # Errors
    /// If it is not an engine's result, or does not add up.
    pub fn parse(text: &str) -> Result<Output, String> {
        let output: Output = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if output.format != FORMAT {
            return Err(format!("format {} instead of {FORMAT}", output.format));
        }
        output.check()?;
        Ok(output)
    }

    fn check(&self) -> Result<(), String> {
        for (_, counts) in self.classes() {
            Histogram::try_from(counts)?;
        }
        let threads = self.operations(|_| true);
        let seconds: u64 = self.seconds.iter().map(|second| second.normal.count + second.boosted.count).sum();
        let classes = self.normal.count + self.boosted.count;
        if [threads, seconds, classes].iter().any(|&count| count != self.all.count) {
            return Err(format!(
                "{} operations in all, but {threads} of threads, {seconds} of seconds and {classes} of classes",
                self.all.count
            ));
        }
        for (class, little) in [(&self.little, true), (&self.big, false)] {
            let Some(counts) = class else { continue };
            let threads = self.operations(|thread| thread.little == little);
            if counts.count != threads {
                let class = if little { "little" } else { "big" };
                return Err(format!("{} operations of {class} threads, but {threads} of each", counts.count));
            }
        }
        Ok(())
    }

    /// Operations of the threads that `count`.
    fn operations(&self, counts: impl Fn(&Thread) -> bool) -> u64 {
        self.threads.iter().filter(|thread| counts(thread)).map(|thread| thread.operations).sum()
    }

    /// Every class of operations, and how its figures' names begin.
    fn classes(&self) -> impl Iterator<Item = (&'static str, &Counts)> {
        let always = [("", &self.all), ("normal_", &self.normal), ("boosted_", &self.boosted)];
        let told = [("little_", &self.little), ("big_", &self.big)];
        always.into_iter().chain(told.into_iter().filter_map(|(name, counts)| Some((name, counts.as_ref()?))))
    }

    /// Operations of little threads that took longer than they were to, over all of theirs.
    fn little_missed(&self) -> Option<f64> {
        let operations = self.little.as_ref()?.count;
        let missed: Option<u64> = self.threads.iter().filter(|thread| thread.little).map(|t| t.missed).sum();
        missed.filter(|_| operations > 0).map(|missed| missed as f64 / operations as f64)
    }

    /// The figures of a run, and its whole text; `None` if no operation ended.
    ///
    /// # Errors
    /// If the counts do not add up, or the engine counted errors.
    pub fn sample(text: &str) -> Result<Option<Sample>, String> {
        let output = Output::parse(text)?;
        if output.errors > 0 {
            return Err(format!(
                "{} operations failed, the first with: {}",
                output.errors, output.first_error
            ));
        }
        if output.all.count == 0 {
            return Ok(None);
        }
        let mut sample = Sample::of([
            ("throughput_per_s", output.throughput_per_s),
            ("slowest_of_mean", output.slowest_of_mean),
            ("slowest_of_fastest", output.slowest_of_fastest),
            ("conflicts", output.conflicts as f64),
            ("verified_updates", output.verified_updates as f64),
        ]);
        if let Some(missed) = output.little_missed() {
            sample.values.insert("little_missed".into(), missed);
        }
        for (class, counts) in output.classes() {
            let summary = Histogram::try_from(counts)?.summary();
            if summary.count == 0 {
                continue;
            }
            for (name, value) in summary.figures() {
                sample.values.insert(format!("{class}{name}"), value);
            }
        }
        sample.output =
            Some(RawValue::from_string(text.trim().to_owned()).map_err(|error| error.to_string())?);
        Ok(Some(sample))
    }
}
