//! Durations: how long epochs, jobs, waits and holds took, all threads together.
//!
//! Buckets are as wide as an eighth of their lower bound, so a percentile is too high by an eighth
//! at most; the maximum is exact. What takes 2⁴⁰ ns (18 minutes) or longer is in the last bucket.
//! Recording is one atomic addition and allocates nothing.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of one power of two, as a power of two.
const SPLIT: u32 = 3;
/// Durations from here on fall into the last bucket.
pub(crate) const CEILING_NS: u64 = 1 << 40;
pub(crate) const BUCKETS: usize = bucket(CEILING_NS - 1) + 1;

/// How long many pieces of work took, such as the jobs of a pool: a count for each bucket of
/// durations. A bucket is as wide as an eighth of its shortest duration.
///
/// ```
/// let pool = manx::pool::FriendlyPool::builder().build()?;
/// pool.submit(|| ())?.join()?;
/// let latencies = pool.latencies();
/// for (durations, jobs) in latencies.service.buckets() {
///     println!("{jobs} jobs took {durations:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    missed: AtomicU64,
    max_ns: AtomicU64,
}

/// What a [`Histogram`] held at some moment. A percentile is too long by an eighth at most; the
/// maximum is exact. All are zero if there was nothing.
///
/// ```
/// use manx::slo::{Epoch, Slo};
/// use std::time::Duration;
///
/// let checkout = Epoch::new("checkout", Slo::p99(Duration::from_secs(60)));
/// checkout.record(true);
/// drop(checkout.enter());
/// let summary = checkout.latencies();
/// assert_eq!((summary.count, summary.missed), (1, 0));
/// println!("p99 {:?}, the longest {:?}", summary.p99, summary.max);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The number of epochs, or of jobs.
    pub count: u64,
    /// How many of these took longer than their target.
    pub missed: u64,
    /// Half took no longer.
    pub p50: Duration,
    /// 99 of a hundred took no longer.
    pub p99: Duration,
    /// 999 of a thousand took no longer.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
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

/// The buckets that are not empty, with the durations that each is for.
pub(crate) fn filled(
    counts: impl Iterator<Item = u64>,
) -> impl Iterator<Item = (RangeInclusive<Duration>, u64)> {
    counts.enumerate().filter(|&(_, count)| count > 0).map(|(bucket, count)| {
        let [shortest, longest] = [lowest_ns(bucket), highest_ns(bucket)].map(Duration::from_nanos);
        (shortest..=longest, count)
    })
}

impl Histogram {
    /// An empty one.
    pub(crate) const fn new() -> Histogram {
        Histogram {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            missed: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    /// An epoch took so long.
    pub(crate) fn record(&self, ns: u64, missed: bool) {
        // Relaxed, here and below: counts that order nothing.
        self.counts[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
        if missed {
            self.missed.fetch_add(1, Ordering::Relaxed);
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

    /// Returns the buckets that are not empty, shortest first: the durations that each is for, and
    /// its count. All that took 18 minutes or longer is in the last one.
    pub fn buckets(&self) -> impl Iterator<Item = (RangeInclusive<Duration>, u64)> + '_ {
        filled(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// Returns the percentiles of what there is so far.
    pub fn summary(&self) -> Summary {
        let (counts, max_ns) = (self.counts(), self.max_ns());
        let percentile = |share| Duration::from_nanos(percentile_ns(&counts, max_ns, share).unwrap_or(0));
        Summary {
            count: counts.iter().sum(),
            missed: self.missed.load(Ordering::Relaxed),
            p50: percentile(0.5),
            p99: percentile(0.99),
            p999: percentile(0.999),
            max: Duration::from_nanos(max_ns),
        }
    }
}

platform::os_only! {
    impl Histogram {
        /// Forgets everything.
        pub(crate) fn clear(&self) {
            for count in self.counts.iter().chain([&self.missed, &self.max_ns]) {
                count.store(0, Ordering::Relaxed);
            }
        }
    }
}

// For rooms that need a whole machine.
platform::timed! {
    impl Histogram {
        /// Records an epoch that was in time, as [`Histogram::record`] does, if no other thread
        /// records: without an atomic addition.
        #[cfg(any(feature = "pool", test))]
        #[inline]
        pub(crate) fn record_alone(&self, ns: u64) {
            let count = &self.counts[bucket(ns)];
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            if ns > self.max_ns.load(Ordering::Relaxed) {
                self.max_ns.store(ns, Ordering::Relaxed);
            }
        }

        /// Adds what another one holds.
        #[cfg(any(feature = "pool", test))]
        pub(crate) fn add(&self, other: &Histogram) {
            for (count, more) in self.counts.iter().zip(&other.counts) {
                count.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.missed.fetch_add(other.missed.load(Ordering::Relaxed), Ordering::Relaxed);
            self.max_ns.fetch_max(other.max_ns.load(Ordering::Relaxed), Ordering::Relaxed);
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
        let last = [lowest_ns(BUCKETS - 1), u64::MAX].map(Duration::from_nanos);
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(last[0]..=last[1], 1)]);
        assert_eq!(histogram.summary().p50, Duration::from_nanos(u64::MAX / 2));
        histogram.clear();
        assert_eq!(histogram.summary(), Summary::default());
    }

    #[test]
    fn a_summary_has_the_percentiles_of_all_that_was_added() {
        let (all, part) = (Histogram::new(), Histogram::new());
        (1..=500).for_each(|ns| all.record(ns, false));
        (501..=990).for_each(|ns| part.record_alone(ns));
        (991..=1000).for_each(|ns| part.record(ns, true));
        all.add(&part);
        let summary = all.summary();
        assert_eq!((summary.count, summary.missed), (1000, 10));
        assert_eq!(summary.max, Duration::from_nanos(1000));
        assert!((Duration::from_nanos(500)..=Duration::from_nanos(532)).contains(&summary.p50));
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
