//! Latencies kept whole: an HDR histogram with the exact count, sum, minimum and maximum beside it.
//!
//! HDR histogram (Gil Tene) with three significant digits: a recorded value is known to 0.1 %.
//! Percentiles are nearest-rank: the smallest recorded value with at least that share of the values
//! at or below it. There is no way to get one without the maximum ([`Tail`], [`Summary`]), because
//! with more threads than CPUs a percentile alone hides the threads that starved.
//!
//! [`Counts`] is the form that is stored and sent: `[[value_ns, count], …]` without empty buckets.
//! [`Histogram`] is the form that answers questions, and needs more room.

use crate::figure::duration;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A histogram as it is stored: sparse, sorted by value, with what is exact beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Values recorded
    pub count: u64,
    /// The smallest of them; 0 if there are none
    pub min_ns: u64,
    /// The largest of them, exactly
    pub max_ns: u64,
    /// All of them added up
    pub sum_ns: u64,
    /// `[value_ns, count]` for each bucket in use
    pub counts: Vec<(u64, u64)>,
}

/// Latencies, all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Counts", into = "Counts")]
pub struct Histogram {
    buckets: hdrhistogram::Histogram<u64>,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

/// One percentile, and the maximum that it must not be read without.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Which percentile, for example 99.9
    pub percentile: f64,
    /// Its value
    pub value_ns: u64,
    /// The maximum
    pub max_ns: u64,
}

/// What a table shows of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Values recorded
    pub count: u64,
    /// Their mean
    pub mean_ns: f64,
    /// The median
    pub p50_ns: u64,
    /// The 99th percentile
    pub p99_ns: u64,
    /// The 99.9th percentile
    pub p999_ns: u64,
    /// The maximum
    pub max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Summary {
    /// The figures with their names, as a run reports them.
    pub fn figures(&self) -> [(&'static str, f64); 6] {
        [
            ("count", self.count as f64),
            ("mean_ns", self.mean_ns),
            ("p50_ns", self.p50_ns as f64),
            ("p99_ns", self.p99_ns as f64),
            ("p999_ns", self.p999_ns as f64),
            ("max_ns", self.max_ns as f64),
        ]
    }
}

impl Histogram {
    /// An empty one.
    ///
    /// ```
    /// use report::Histogram;
    /// let mut latencies = Histogram::new();
    /// latencies.record(250);
    /// latencies.record(1_000_000);
    /// assert_eq!(latencies.tail(50.0).max_ns, 1_000_000);
    /// ```
    pub fn new() -> Histogram {
        let buckets = hdrhistogram::Histogram::new(3).expect("three digits are within what the crate allows");
        Histogram { buckets, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    /// Adds one value.
    pub fn record(&mut self, value_ns: u64) {
        self.record_many(value_ns, 1);
    }

    /// Adds `count` times the same value.
    pub fn record_many(&mut self, value_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.add_to_bucket(value_ns, count);
        self.sum_ns = self.sum_ns.saturating_add(value_ns.saturating_mul(count));
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    fn add_to_bucket(&mut self, value_ns: u64, count: u64) {
        // It grows on demand, so the only refusal is one of memory, which aborts elsewhere in Rust
        // too.
        self.buckets.record_n(value_ns, count).expect("an automatically resized histogram takes every value");
    }

    /// Adds all of another one's values.
    pub fn merge(&mut self, other: &Histogram) {
        self.buckets.add(&other.buckets).expect("an automatically resized histogram takes every value");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets all values, and keeps its memory.
    pub fn clear(&mut self) {
        self.buckets.reset();
        (self.sum_ns, self.min_ns, self.max_ns) = (0, u64::MAX, 0);
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.len()
    }

    /// The mean; 0 if it is empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// A percentile with the maximum beside it; both 0 if it is empty.
    ///
    /// # Panics
    /// If `percentile` is not from 0 to 100.
    pub fn tail(&self, percentile: f64) -> Tail {
        Tail { percentile, value_ns: self.value(percentile), max_ns: self.max_ns }
    }

    /// What a table shows.
    pub fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            mean_ns: self.mean_ns(),
            p50_ns: self.value(50.0),
            p99_ns: self.value(99.0),
            p999_ns: self.value(99.9),
            max_ns: self.max_ns,
        }
    }

    fn value(&self, percentile: f64) -> u64 {
        assert!((0.0..=100.0).contains(&percentile), "{percentile} is not a percentile");
        if self.count() == 0 {
            return 0;
        }
        self.buckets.value_at_quantile(percentile / 100.0).clamp(self.min_ns, self.max_ns)
    }
}

impl std::iter::Sum for Histogram {
    fn sum<I: Iterator<Item = Histogram>>(all: I) -> Histogram {
        let mut sum = Histogram::new();
        all.for_each(|one| sum.merge(&one));
        sum
    }
}

impl From<&Histogram> for Counts {
    fn from(histogram: &Histogram) -> Counts {
        let counts = histogram.buckets.iter_recorded();
        Counts {
            count: histogram.count(),
            min_ns: if histogram.count() == 0 { 0 } else { histogram.min_ns },
            max_ns: histogram.max_ns,
            sum_ns: histogram.sum_ns,
            counts: counts.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        }
    }
}

impl From<Histogram> for Counts {
    fn from(histogram: Histogram) -> Counts {
        Counts::from(&histogram)
    }
}

impl TryFrom<&Counts> for Histogram {
    type Error = String;

    /// # Errors
    /// If the counts do not add up.
    fn try_from(counts: &Counts) -> Result<Histogram, String> {
        let total: u64 = counts.counts.iter().map(|&(_, count)| count).sum();
        if total != counts.count {
            return Err(format!(
                "a histogram's buckets hold {total} values, not the {} it names",
                counts.count
            ));
        }
        if total > 0 && counts.min_ns > counts.max_ns {
            return Err(format!("a histogram from {} to {} ns", counts.min_ns, counts.max_ns));
        }
        let mut histogram = Histogram::new();
        for &(value_ns, count) in &counts.counts {
            histogram.add_to_bucket(value_ns, count);
        }
        histogram.sum_ns = counts.sum_ns;
        histogram.max_ns = counts.max_ns;
        if total > 0 {
            histogram.min_ns = counts.min_ns;
        }
        Ok(histogram)
    }
}

impl TryFrom<Counts> for Histogram {
    type Error = String;

    fn try_from(counts: Counts) -> Result<Histogram, String> {
        Histogram::try_from(&counts)
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} {}, max {}", self.percentile, duration(self.value_ns), duration(self.max_ns))
    }
}
