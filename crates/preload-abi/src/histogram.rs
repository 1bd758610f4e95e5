//! A histogram of durations whose buckets grow by a constant factor, as Prometheus' native
//! histograms have them.
//!
//! Each doubling has [`BUCKETS_PER_DOUBLING`] buckets, so bucket `i` ends at a power of 2^(1/8)
//! seconds ([`SCHEMA`] 3). A percentile is too long by a tenth at most. A monitoring system gets
//! the buckets as they are, and can add those of many processes. The first bucket has all up to
//! about a microsecond, the last one all from 64 seconds on.
//!
//! Counting is a search in a table of 209 numbers and one atomic addition. It allocates nothing.
//!
//! Invariants:
//! 1. Bucket `i` holds durations that are longer than `upper_ns(i - 1)` and not longer than
//!    `upper_ns(i)`.
//! 2. Counts only grow. They order nothing, so all accesses are relaxed.

use core::sync::atomic::{AtomicU64, Ordering};

/// The resolution as Prometheus counts it: a bucket ends at 2^(1 / 2^SCHEMA) times its beginning.
pub const SCHEMA: i32 = 3;
/// Buckets from one duration to its double.
pub const BUCKETS_PER_DOUBLING: usize = 1 << SCHEMA;
/// The first bucket ends at 2^-20 s, which is 954 ns.
pub const FIRST_EXPONENT: i32 = -20;
/// The last bucket but one ends at 2^6 s.
const LAST_EXPONENT: i32 = 6;
/// The number of buckets. The last one has no end.
pub const BUCKETS: usize = (LAST_EXPONENT - FIRST_EXPONENT) as usize * BUCKETS_PER_DOUBLING + 2;

/// 2^(i / 8), in units of 2^-32.
const ROOTS: [u64; BUCKETS_PER_DOUBLING] = [
    0x1_0000_0000,
    0x1_172b_83c8,
    0x1_306f_e0a3,
    0x1_4bfd_ad53,
    0x1_6a09_e668,
    0x1_8ace_5423,
    0x1_ae89_f996,
    0x1_d581_8dcf,
];

/// Where each bucket ends, in whole nanoseconds.
static UPPER_NS: [u64; BUCKETS - 1] = {
    let mut upper_ns = [0; BUCKETS - 1];
    let mut bucket = 0;
    while bucket < upper_ns.len() {
        let root = 1_000_000_000 * ROOTS[bucket % BUCKETS_PER_DOUBLING] as u128;
        let doublings = bucket / BUCKETS_PER_DOUBLING;
        upper_ns[bucket] = ((root << doublings) >> (32 - FIRST_EXPONENT)) as u64;
        bucket += 1;
    }
    upper_ns
};

/// The longest duration of a bucket, in nanoseconds; `u64::MAX` for the last one.
///
/// ```
/// use preload_abi::histogram::{BUCKETS, BUCKETS_PER_DOUBLING, upper_ns};
///
/// assert_eq!(upper_ns(20 * BUCKETS_PER_DOUBLING), 1_000_000_000);
/// assert_eq!(upper_ns(BUCKETS - 1), u64::MAX);
/// ```
pub fn upper_ns(bucket: usize) -> u64 {
    UPPER_NS.get(bucket).copied().unwrap_or(u64::MAX)
}

/// The bucket of a duration.
///
/// ```
/// use preload_abi::histogram::{BUCKETS, bucket_of};
///
/// assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BUCKETS - 1));
/// ```
pub fn bucket_of(ns: u64) -> usize {
    UPPER_NS.partition_point(|&upper| upper < ns)
}

/// Counts of durations, which any thread adds to. Zeroes are an empty one.
#[repr(C)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&self, ns: u64) {
        self.counts[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts so far, each loaded once.
    pub fn read(&self) -> Counts {
        Counts(core::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)))
    }
}

/// What a [`Histogram`] held at some moment: a count for each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(pub [u64; BUCKETS]);

impl Default for Counts {
    fn default() -> Counts {
        Counts([0; BUCKETS])
    }
}

impl Counts {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds those of another histogram.
    ///
    /// ```
    /// use preload_abi::histogram::Counts;
    ///
    /// let (mut one, mut other) = (Counts::default(), Counts::default());
    /// (one.0[3], other.0[3]) = (1, 4);
    /// one.add(&other);
    /// assert_eq!(one.0[3], 5);
    /// ```
    pub fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// What has come since an earlier reading of the same histogram. Empty if that was another one.
    ///
    /// ```
    /// use preload_abi::histogram::Counts;
    ///
    /// let (mut earlier, mut later) = (Counts::default(), Counts::default());
    /// (earlier.0[3], later.0[3]) = (1, 4);
    /// assert_eq!(later.since(&earlier).count(), 3);
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts(core::array::from_fn(|bucket| self.0[bucket].saturating_sub(earlier.0[bucket])))
    }

    /// The duration that a share (0 to 1) of all did not exceed, in nanoseconds: where its bucket
    /// ends, so at most a tenth too long. `None` if there are none.
    ///
    /// ```
    /// use preload_abi::histogram::{Counts, bucket_of, upper_ns};
    ///
    /// let mut counts = Counts::default();
    /// counts.0[bucket_of(1_000_000)] = 1;
    /// assert!((1_000_000..1_100_000).contains(&counts.percentile(0.99).unwrap()));
    /// assert_eq!(Counts::default().percentile(0.99), None);
    /// ```
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let wanted = share.clamp(0.0, 1.0) * self.count() as f64;
        let mut below = 0;
        // At least one duration is at or below each percentile.
        let reached = self.0.iter().position(|count| {
            below += count;
            below > 0 && below as f64 >= wanted
        });
        reached.map(upper_ns)
    }

    /// The buckets that are not empty, shortest first: where each ends, in nanoseconds, and its
    /// count.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.0.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(bucket, &count)| (upper_ns(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_end_where_prometheus_has_them() {
        for (bucket, &upper) in UPPER_NS.iter().enumerate() {
            let exponent = f64::from(FIRST_EXPONENT) + bucket as f64 / BUCKETS_PER_DOUBLING as f64;
            let exact = exponent.exp2() * 1e9;
            assert!((exact - upper as f64).abs() <= 1.0 + exact * 1e-9, "{bucket}: {upper} for {exact}");
            // Invariant 1.
            assert_eq!((bucket_of(upper), bucket_of(upper + 1)), (bucket, bucket + 1));
        }
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_tenth_off_at_most(
            mut durations in proptest::collection::vec(1_000..64_000_000_000_u64, 1..200),
            share in 0.0_f64..=1.0,
        ) {
            let histogram = Histogram { counts: [const { AtomicU64::new(0) }; BUCKETS] };
            durations.iter().for_each(|ns| histogram.record(*ns));
            durations.sort_unstable();
            let rank = ((share * durations.len() as f64).ceil() as usize).max(1);
            let exact = durations[rank - 1];
            let got = histogram.read().percentile(share).expect("there are some");
            prop_assert!(got >= exact && got as f64 <= exact as f64 * 1.1, "{} for {}", got, exact);
            prop_assert_eq!(histogram.read().count(), durations.len() as u64);
            prop_assert_eq!(histogram.read().filled().map(|(_, count)| count).sum::<u64>(), durations.len() as u64);
        }
    }
}
