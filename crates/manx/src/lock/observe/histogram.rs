//! How long waits and holds took: a histogram of [`slo::histogram`](crate::slo::histogram), and the
//! exact sum of its durations.

use crate::slo::histogram::{self, highest_ns, lowest_ns};
use platform::atomic::{AtomicU64, Ordering};

/// A histogram that any thread may add to.
#[derive(Debug)]
pub(super) struct Counts {
    durations: histogram::Histogram,
    sum_ns: AtomicU64,
}

// All accesses are relaxed: numbers that are added up, and read for their own sake.
impl Counts {
    pub(super) const fn new() -> Counts {
        Counts { durations: histogram::Histogram::new(), sum_ns: AtomicU64::new(0) }
    }

    pub(super) fn add(&self, ns: u64) {
        self.durations.record(ns, false);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.durations.clear();
        self.sum_ns.store(0, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Histogram {
        Histogram {
            counts: self.durations.counts(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            max_ns: self.durations.max_ns(),
        }
    }
}

/// How often a duration was how long, at the moment when it was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    sum_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// How many durations were added.
    ///
    /// ```
    /// assert_eq!(manx::lock::Histogram::default().count(), 0);
    /// ```
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations, in nanoseconds.
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The longest one, in nanoseconds, exactly; 0 if there is none.
    pub const fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The duration that this share of them (0 to 1) did not exceed, in nanoseconds: the end of its
    /// bucket, so at most an eighth too long, and never above the longest. `None` if there are
    /// none.
    ///
    /// ```
    /// assert_eq!(manx::lock::Histogram::default().percentile_ns(0.99), None);
    /// ```
    pub fn percentile_ns(&self, share: f64) -> Option<u64> {
        histogram::percentile_ns(&self.counts, self.max_ns, share)
    }

    /// Returns the buckets that are not empty: for each its start and its end (not included), in
    /// nanoseconds, and its count.
    ///
    /// ```
    /// assert_eq!(manx::lock::Histogram::default().buckets().count(), 0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (lowest_ns(bucket), highest_ns(bucket).saturating_add(1), *count))
    }

    /// Adds another histogram's durations.
    pub(super) fn merge(&mut self, other: &Histogram) {
        for (mine, more) in self.counts.iter_mut().zip(&other.counts) {
            *mine += more;
        }
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}
