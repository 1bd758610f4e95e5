//! Durations: how long epochs, jobs, waits and holds took, all threads together.
//!
//! Buckets are as wide as an eighth of their lower bound, so a percentile is too high by an eighth
//! at most; the maximum is exact. What takes 2⁴⁰ ns (18 minutes) or longer is in the last bucket.
//! Recording is one atomic addition and allocates nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of one power of two, as a power of two.
const SPLIT: u32 = 3;
/// Durations from here on fall into the last bucket.
pub(crate) const CEILING_NS: u64 = 1 << 40;
pub(crate) const BUCKETS: usize = bucket(CEILING_NS - 1) + 1;

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

const fn bucket(ns: u64) -> usize {
    let ns = if ns < CEILING_NS { ns } else { CEILING_NS - 1 };
    if ns < 1 << SPLIT {
        return ns as usize;
    }
    let octave = ns.ilog2() - SPLIT;
    (((octave as u64 + 1) << SPLIT) + ((ns >> octave) & ((1 << SPLIT) - 1))) as usize
}

/// The lowest value in a bucket.
pub(crate) const fn lowest_ns(bucket: usize) -> u64 {
    let (octave, below) = (bucket as u64 >> SPLIT, bucket as u64 & ((1 << SPLIT) - 1));
    if octave == 0 { below } else { ((1 << SPLIT) + below) << (octave - 1) }
}

/// The highest value in a bucket; the last one has no end.
pub(crate) const fn highest_ns(bucket: usize) -> u64 {
    if bucket + 1 == BUCKETS { u64::MAX } else { lowest_ns(bucket + 1) - 1 }
}

/// The duration that a share (0 to 1) of what is in the buckets did not exceed: the end of a
/// bucket, and never above the longest. `None` if they are empty.
pub(crate) fn percentile_ns(counts: &[u64], max_ns: u64, share: f64) -> Option<u64> {
    let count: u64 = counts.iter().sum();
    let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).max(1);
    let mut below = 0;
    let at = counts.iter().position(|count| {
        below += count;
        below >= rank
    });
    at.map(|bucket| highest_ns(bucket).min(max_ns).max(lowest_ns(bucket)))
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

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        for count in self.counts.iter().chain([&self.missed, &self.max_ns]) {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// The count of each bucket.
    pub(crate) fn counts(&self) -> Box<[u64]> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// The longest duration.
    pub(crate) fn max_ns(&self) -> u64 {
        self.max_ns.load(Ordering::Relaxed)
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
        counts.filter(|&(_, count)| count > 0).map(|(bucket, count)| (lowest_ns(bucket), highest_ns(bucket), count))
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
        let (counts, max_ns) = (self.counts(), self.max_ns());
        let percentile_ns = |share| percentile_ns(&counts, max_ns, share).unwrap_or(0);
        Summary {
            count: counts.iter().sum(),
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
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for number in 0..BUCKETS {
            assert_eq!((bucket(lowest_ns(number)), bucket(highest_ns(number))), (number, number));
        }
    }

    #[test]
    fn the_last_bucket_takes_what_is_too_long() {
        let histogram = Histogram::new();
        histogram.record(u64::MAX / 2, false);
        assert_eq!(histogram.buckets().next(), Some((lowest_ns(BUCKETS - 1), u64::MAX, 1)));
        assert_eq!(histogram.summary().p50_ns, u64::MAX / 2);
        histogram.clear();
        assert_eq!(histogram.summary(), Summary::default());
    }

    proptest! {
        #[test]
        fn a_percentile_is_an_eighth_off_at_most(
            mut durations in proptest::collection::vec(0..CEILING_NS, 1..200),
            share in 0.0_f64..=1.0,
        ) {
            let histogram = Histogram::new();
            durations.iter().for_each(|ns| histogram.record(*ns, false));
            durations.sort_unstable();
            let rank = ((share * durations.len() as f64).ceil() as usize).max(1);
            let exact = durations[rank - 1];
            let got = percentile_ns(&histogram.counts(), histogram.max_ns(), share).expect("there are some");
            prop_assert!(got >= exact && got <= exact + exact / 8, "{} for {}", got, exact);
            prop_assert_eq!(histogram.summary().count, durations.len() as u64);
            prop_assert_eq!(histogram.max_ns(), durations[durations.len() - 1]);
        }
    }
}
