//! How long the epochs of an id took, all threads together.
//!
//! Buckets as wide as an eighth of their lower bound, so a percentile is too high by an eighth at
//! most; the maximum is exact. Recording is one atomic addition and allocates nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of one power of two, as a power of two.
const SPLIT: u32 = 3;
const BUCKETS: usize = (64 - SPLIT as usize + 1) << SPLIT;

/// Latencies in nanoseconds.
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    missed: AtomicU64,
    max_ns: AtomicU64,
}

/// What a [`Histogram`] held at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Epochs.
    pub count: u64,
    /// How many of these took longer than they were to.
    pub missed: u64,
    /// Half took no longer, in nanoseconds.
    pub p50_ns: u64,
    /// 99 of a hundred took no longer, in nanoseconds.
    pub p99_ns: u64,
    /// 999 of a thousand took no longer, in nanoseconds.
    pub p999_ns: u64,
    /// The longest, in nanoseconds.
    pub max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.summary().fmt(f)
    }
}

fn bucket(ns: u64) -> usize {
    let high = ns.max(1).ilog2();
    if high < SPLIT {
        return ns as usize;
    }
    let below = ns >> (high - SPLIT) & ((1 << SPLIT) - 1);
    (((high - SPLIT + 1) << SPLIT) as u64 + below) as usize
}

/// The highest value in a bucket.
fn highest_ns(bucket: usize) -> u64 {
    if bucket < 1 << SPLIT {
        return bucket as u64;
    }
    let shift = (bucket >> SPLIT) - 1;
    let below = (bucket & ((1 << SPLIT) - 1)) as u128 + (1 << SPLIT) + 1;
    u64::try_from((below << shift) - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// An empty one.
    pub const fn new() -> Histogram {
        Histogram {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            missed: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// An epoch took so long.
    pub fn record(&self, ns: u64, missed: bool) {
        // Relaxed, here and below: counts that order nothing.
        self.counts[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
        if missed {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records an epoch that was in time, as [`Histogram::record`] does, if no other thread
    /// records: without an atomic addition.
    #[inline]
    pub fn record_alone(&self, ns: u64) {
        let count = &self.counts[bucket(ns)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(ns, Ordering::Relaxed);
        }
    }

    /// Adds what another one holds.
    ///
    /// ```
    /// use manx::slo::histogram::Histogram;
    ///
    /// let (all, part) = (Histogram::new(), Histogram::new());
    /// all.record(10, false);
    /// part.record_alone(20);
    /// all.add(&part);
    /// assert_eq!((all.summary().count, all.summary().max_ns), (2, 20));
    /// ```
    pub fn add(&self, other: &Histogram) {
        for (count, more) in self.counts.iter().zip(&other.counts) {
            count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.missed.fetch_add(other.missed.load(Ordering::Relaxed), Ordering::Relaxed);
        self.max_ns.fetch_max(other.max_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns the buckets that are not empty, shortest first: the least and the most nanoseconds
    /// of each, and how often.
    ///
    /// ```
    /// use manx::slo::histogram::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// histogram.record(1_000, false);
    /// let (least_ns, most_ns, count) = histogram.buckets().next().expect("one was recorded");
    /// assert!((least_ns..=most_ns).contains(&1_000) && count == 1);
    /// assert_eq!(histogram.buckets().count(), 1);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
        counts.filter(|&(_, count)| count > 0).map(|(bucket, count)| {
            let least_ns = bucket.checked_sub(1).map_or(0, |below| highest_ns(below) + 1);
            (least_ns, highest_ns(bucket), count)
        })
    }

    /// What there is so far.
    ///
    /// ```
    /// use manx::slo::histogram::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// for ns in 1..=1000 {
    ///     histogram.record(ns, ns > 990);
    /// }
    /// let summary = histogram.summary();
    /// assert_eq!((summary.count, summary.missed, summary.max_ns), (1000, 10, 1000));
    /// assert!((500..=532).contains(&summary.p50_ns));
    /// ```
    pub fn summary(&self) -> Summary {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let max_ns = self.max_ns.load(Ordering::Relaxed);
        let percentile_ns = |part: f64| {
            let rank = ((count as f64 * part).ceil() as u64).max(1);
            let mut below = 0;
            let at = counts.iter().position(|count| {
                below += count;
                below >= rank
            });
            at.map_or(0, |bucket| highest_ns(bucket).min(max_ns))
        };
        Summary {
            count,
            missed: self.missed.load(Ordering::Relaxed),
            p50_ns: percentile_ns(0.5),
            p99_ns: percentile_ns(0.99),
            p999_ns: percentile_ns(0.999),
            max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_its_bucket() {
        let mut last = 0;
        for power in 0..64 {
            for ns in [(1_u64 << power) - 1, 1 << power, (1 << power) + (1 << power) / 3] {
                let at = bucket(ns);
                assert!(at >= last && at < BUCKETS, "{ns}");
                assert!(highest_ns(at) >= ns && (at == 0 || highest_ns(at - 1) < ns), "{ns}");
                last = at;
            }
        }
        assert_eq!(highest_ns(bucket(u64::MAX)), u64::MAX);
    }
}
