//! Latencies while they are measured: log-linear buckets, a thread's own and shared ones.
//!
//! The same buckets as the drivers in C have (`engines/histogram.h`), so that all are measured with
//! one rule: values below 256 ns exactly, others to within 0.4 %. A thread counts into its own
//! without atomic operations, and gives them away when a second is over. Nothing is allocated while
//! it counts.

use report::Counts;
use std::sync::atomic::{AtomicU64, Ordering};

const BITS: u32 = 7;
const TOP: u32 = 40;
const BUCKETS: usize = ((TOP - BITS + 1) << BITS) as usize;

fn bucket(value_ns: u64) -> usize {
    if value_ns < 2 << BITS {
        return value_ns as usize;
    }
    let shift = 63 - value_ns.leading_zeros() - BITS;
    let bucket = ((u64::from(shift)) << BITS) + (value_ns >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn value(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 << BITS {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    ((bucket - (shift << BITS)) << shift) + ((1 << shift) >> 1)
}

/// One thread's.
#[derive(Debug)]
pub(super) struct Tally {
    buckets: Box<[u32]>,
    /// Those in use lie within
    used: (usize, usize),
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { buckets: vec![0; BUCKETS].into(), used: (BUCKETS, 0), sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, value_ns: u64) {
        let at = bucket(value_ns);
        self.buckets[at] += 1;
        self.used = (self.used.0.min(at), self.used.1.max(at + 1));
        self.sum_ns += value_ns;
        self.min_ns = self.min_ns.min(value_ns);
        self.max_ns = self.max_ns.max(value_ns);
    }

    /// Moves what was counted to shared ones.
    pub(super) fn give(&mut self, to: &Shared) {
        if self.used.1 == 0 {
            return;
        }
        // Relaxed: a thread that reads them has joined the counting threads before.
        for at in self.used.0..self.used.1 {
            let count = std::mem::take(&mut self.buckets[at]);
            if count > 0 {
                to.buckets[at].fetch_add(u64::from(count), Ordering::Relaxed);
            }
        }
        to.sum_ns.fetch_add(self.sum_ns, Ordering::Relaxed);
        to.min_ns.fetch_min(self.min_ns, Ordering::Relaxed);
        to.max_ns.fetch_max(self.max_ns, Ordering::Relaxed);
        (self.used, self.sum_ns, self.min_ns, self.max_ns) = ((BUCKETS, 0), 0, u64::MAX, 0);
    }
}

/// Of several threads.
#[derive(Debug)]
pub(super) struct Shared {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
    min_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
        }
    }

    /// What was given, as it is stored; all threads have ended.
    pub(super) fn counts(&self) -> Counts {
        Shared::sum(&[self])
    }

    /// All of several, as if they were one.
    pub(super) fn sum(all: &[&Shared]) -> Counts {
        let mut counts = Counts { min_ns: u64::MAX, ..Counts::default() };
        for at in 0..BUCKETS {
            let count = all.iter().map(|one| one.buckets[at].load(Ordering::Relaxed)).sum();
            if count > 0 {
                counts.counts.push((value(at), count));
                counts.count += count;
            }
        }
        for one in all {
            counts.sum_ns += one.sum_ns.load(Ordering::Relaxed);
            counts.min_ns = counts.min_ns.min(one.min_ns.load(Ordering::Relaxed));
            counts.max_ns = counts.max_ns.max(one.max_ns.load(Ordering::Relaxed));
        }
        if counts.count == 0 {
            counts.min_ns = 0;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Histogram;

    #[test]
    fn a_bucket_names_its_values_within_half_a_percent_and_in_order() {
        for shift in 0..39 {
            for part in 0..200u64 {
                let ns = (1u64 << shift) + ((1u64 << shift) * part) / 200;
                let named = value(bucket(ns));
                assert!(named.abs_diff(ns) as f64 <= 0.004 * ns as f64, "{ns} is counted as {named}");
            }
        }
        let values: Vec<u64> = (0..BUCKETS).map(value).collect();
        assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(values.iter().enumerate().all(|(at, ns)| bucket(*ns) == at));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn giving_moves_everything_once_and_sums_are_histograms() {
        let (mut own, first, second) = (Tally::new(), Shared::new(), Shared::new());
        [70, 5_000_000, 70].into_iter().for_each(|ns| own.record(ns));
        own.give(&first);
        own.give(&first);
        own.record(9);
        own.give(&second);
        let counts = Shared::sum(&[&first, &second]);
        assert_eq!((counts.count, counts.min_ns, counts.max_ns, counts.sum_ns), (4, 9, 5_000_000, 5_000_149));
        assert_eq!((first.counts().count, second.counts().count), (3, 1));
        assert_eq!(Histogram::try_from(&counts).unwrap().summary().max_ns, 5_000_000);
        assert_eq!(Shared::new().counts(), Counts::default());
    }
}
