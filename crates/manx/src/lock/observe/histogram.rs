//! How long waits and holds took: a histogram as that of [`slo`](crate::slo::Histogram), and the
//! exact sum of its durations.

use crate::slo::histogram::{self, filled};
use core::ops::RangeInclusive;
use core::time::Duration;
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

/// How long the waits for a lock took, or the holds of it: see
/// [`LockStatistics`](super::LockStatistics). It does not change any more.
///
/// ```
/// use manx::lock::{Mutex, Observe};
///
/// manx::lock::observe(Observe::STATISTICS);
/// let mutex = Mutex::new(0);
/// *mutex.lock() += 1;
/// let statistics = manx::lock::statistics();
/// let holds = &statistics.locks[0].hold;
/// assert!(holds.count() >= 1 && holds.sum() >= holds.max());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    sum_ns: u64,
    max_ns: u64,
}

impl Histogram {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the longest duration, exactly; zero if there is none.
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Returns the duration that this share of them (0 to 1) did not exceed: the end of its bucket,
    /// so at most an eighth too long, and never above the longest. `None` if there are none.
    pub fn percentile(&self, share: f64) -> Option<Duration> {
        histogram::percentile_ns(&self.counts, self.max_ns, share).map(Duration::from_nanos)
    }

    /// Returns the buckets that are not empty, shortest first: the durations that each is for, and
    /// its count.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<Duration>, u64)> + '_ {
        filled(self.counts.iter().copied())
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
