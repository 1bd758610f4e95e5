//! Latencies while they are measured: a thread's own, and shared ones.
//!
//! A thread counts into its own histogram and gives it away when a second is over. The lock of the
//! shared ones is held for the time that a pointer takes to be moved, so that a thread that is
//! preempted there hardly ever holds up the others, which may be boosted.

use report::{Counts, Histogram};
use std::sync::{Mutex, PoisonError};

/// One thread's.
#[derive(Debug, Default)]
pub(super) struct Tally(Histogram);

impl Tally {
    pub(super) fn new() -> Tally {
        Tally::default()
    }

    #[inline]
    pub(super) fn record(&mut self, value_ns: u64) {
        self.0.record(value_ns);
    }

    /// Moves what was counted to shared ones.
    pub(super) fn give(&mut self, to: &Shared) {
        if self.0.count() > 0 {
            let counts = Counts::from(&self.0);
            to.0.lock().unwrap_or_else(PoisonError::into_inner).push(counts);
            self.0.clear();
        }
    }
}

/// Of several threads.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<Vec<Counts>>);

impl Shared {
    pub(super) fn new() -> Shared {
        Shared::default()
    }

    /// What was given, as it is stored; all threads have ended.
    pub(super) fn counts(&self) -> Counts {
        Shared::sum(&[self])
    }

    /// All of several, as if they were one.
    pub(super) fn sum(all: &[&Shared]) -> Counts {
        let histograms = |one: &&Shared| -> Vec<Histogram> {
            let counts = one.0.lock().unwrap_or_else(PoisonError::into_inner);
            counts.iter().filter_map(|counts| Histogram::try_from(counts).ok()).collect()
        };
        all.iter().flat_map(histograms).sum::<Histogram>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
