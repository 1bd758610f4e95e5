//! What a metric is, apart from how it is written: families, their samples, and histograms.
//!
//! A family's name has no suffix. The writers add `_total`, `_bucket`, `_sum` and `_count` where
//! their format wants them.

use preload_abi::histogram::Counts;

/// How the values of a family behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They only grow.
    Counter,
    /// They grow and fall.
    Gauge,
    /// They are histograms of durations.
    Histogram,
}

impl Kind {
    /// The word of the text formats.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// What is the same for all samples of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name, without a suffix.
    pub name: &'static str,
    /// How the values behave.
    pub kind: Kind,
    /// The unit, which the name ends in; empty for numbers of things.
    pub unit: &'static str,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

/// A histogram of durations, with the buckets of [`preload_abi::histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The number of durations in each bucket.
    pub counts: Counts,
    /// All durations together, in nanoseconds.
    pub sum_ns: u64,
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Histogram(Box<Histogram>),
}

/// One value and its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The values of the labels, in the order of [`Description::labels`].
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// The samples of one description.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// What they have in common.
    pub description: &'static Description,
    /// The samples.
    pub samples: Vec<Sample>,
}

impl Family {
    /// A family without samples.
    pub fn new(description: &'static Description) -> Family {
        Family { description, samples: Vec::new() }
    }

    /// Adds a number.
    ///
    /// # Panics
    /// If the labels are not as many as the description has.
    pub fn number(&mut self, labels: &[&str], value: f64) {
        self.push(labels, Value::Number(value));
    }

    /// Adds a histogram.
    ///
    /// # Panics
    /// If the labels are not as many as the description has.
    pub fn histogram(&mut self, labels: &[&str], histogram: Histogram) {
        self.push(labels, Value::Histogram(Box::new(histogram)));
    }

    fn push(&mut self, labels: &[&str], value: Value) {
        assert_eq!(labels.len(), self.description.labels.len(), "{}", self.description.name);
        self.samples.push(Sample { labels: labels.iter().map(|&label| label.to_owned()).collect(), value });
    }
}

/// Nanoseconds as seconds.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
