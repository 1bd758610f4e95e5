//! Histograms of durations, of fixed size and with four buckets an octave, so exact to a quarter.
//!
//! | duration in ns | bucket |
//! | --- | --- |
//! | 0 to 3 | one each |
//! | 4 · 2ⁿ to 8 · 2ⁿ − 1 | four of 2ⁿ each |
//! | 2⁴⁰ (18 minutes) and more | the last |
//!
//! The sum and the longest duration are kept beside them and are exact.

use platform::atomic::{AtomicU64, Ordering};

/// Buckets an octave, as a power of two.
const FINE_BITS: u32 = 2;
const FINE: u64 = 1 << FINE_BITS;
/// Durations from here on fall into the last bucket.
const CEILING_NS: u64 = 1 << 40;
/// How many buckets there are.
const BUCKETS: usize = bucket(CEILING_NS - 1) + 1;

/// The bucket of a duration below [`CEILING_NS`].
const fn bucket(ns: u64) -> usize {
    if ns < FINE {
        return ns as usize;
    }
    let octave = ns.ilog2() - FINE_BITS;
    ((octave as u64 + 1) * FINE + (ns >> octave) % FINE) as usize
}

/// The shortest duration in a bucket.
const fn bucket_start_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < FINE {
        return bucket;
    }
    (FINE + bucket % FINE) << (bucket / FINE - 1)
}

/// A histogram that any thread may add to.
#[derive(Debug)]
pub(super) struct Counts {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

// All accesses are relaxed: numbers that are added up, and read for their own sake.
impl Counts {
    pub(super) const fn new() -> Counts {
        Counts {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn add(&self, ns: u64) {
        self.counts[bucket(ns.min(CEILING_NS - 1))].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        for count in self.counts.iter().chain([&self.sum_ns, &self.max_ns]) {
            count.store(0, Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> Histogram {
        Histogram {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            max_ns: self.max_ns.load(Ordering::Relaxed),
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
    /// bucket, so at most a quarter too long, and never above the longest. `None` if there are
    /// none.
    ///
    /// ```
    /// assert_eq!(manx::lock::Histogram::default().percentile_ns(0.99), None);
    /// ```
    pub fn percentile_ns(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((share.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        for (start_ns, end_ns, in_bucket) in self.buckets() {
            seen += in_bucket;
            if seen >= rank {
                return Some((end_ns - 1).min(self.max_ns).max(start_ns));
            }
        }
        None
    }

    /// Returns the buckets that are not empty: for each its start and its end (not included), in
    /// nanoseconds, and its count.
    ///
    /// ```
    /// assert_eq!(manx::lock::Histogram::default().buckets().count(), 0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (bucket_start_ns(bucket), bucket_end_ns(bucket), *count))
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

/// Where the next bucket starts; the last one has no end.
fn bucket_end_ns(bucket: usize) -> u64 {
    if bucket + 1 == BUCKETS { u64::MAX } else { bucket_start_ns(bucket + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        for number in 0..BUCKETS {
            assert_eq!(bucket(bucket_start_ns(number)), number);
            if number > 0 {
                assert_eq!(bucket(bucket_start_ns(number) - 1), number - 1);
            }
        }
    }

    #[test]
    fn the_last_bucket_takes_what_is_too_long() {
        let counts = Counts::new();
        counts.add(u64::MAX / 2);
        let histogram = counts.snapshot();
        assert_eq!(histogram.buckets().next(), Some((bucket_start_ns(BUCKETS - 1), u64::MAX, 1)));
        assert_eq!(histogram.percentile_ns(0.5), Some(u64::MAX / 2));
        counts.clear();
        assert_eq!((counts.snapshot().count(), counts.snapshot().max_ns()), (0, 0));
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_quarter_off_at_most(
            mut durations in proptest::collection::vec(0..CEILING_NS, 1..200),
            share in 0.0_f64..=1.0,
        ) {
            let counts = Counts::new();
            durations.iter().for_each(|ns| counts.add(*ns));
            durations.sort_unstable();
            let rank = ((share * durations.len() as f64).ceil() as usize).max(1);
            let exact = durations[rank - 1];
            let histogram = counts.snapshot();
            let got = histogram.percentile_ns(share).expect("there are some");
            prop_assert!(got >= exact && got <= exact + exact / 4, "{} for {}", got, exact);
            prop_assert_eq!(histogram.count(), durations.len() as u64);
            prop_assert_eq!(histogram.max_ns(), durations[durations.len() - 1]);
            prop_assert_eq!(histogram.sum_ns(), durations.iter().sum::<u64>());
        }
    }
}
