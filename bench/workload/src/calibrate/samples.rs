//! Samples of one quantity, in nanoseconds if it is a time, and how they are taken.
//!
//! A single operation takes a few nanoseconds, and a look at the clock takes longer. So a sample is
//! a *batch*: many operations between two looks, and their mean. A batch is short (some 20 µs), so
//! most batches run without an interrupt or another thread in between. The median of the batches is
//! then the figure, and a disturbed batch only moves the upper quartile.

use crate::harness::Sample;
use platform::clock;

/// Samples in ascending order, in nanoseconds if they are times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The samples that are numbers.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Samples {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        Samples(values)
    }

    /// The samples of one of `parts` equal parts each.
    #[must_use]
    pub fn over(self, parts: f64) -> Samples {
        Samples(self.0.into_iter().map(|sample| sample / parts).collect())
    }

    /// The sample that `share` (0 to 1) of all samples do not exceed; `NaN` if there is none.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// The figures that a run of the bench keeps: the median and the quartiles.
    pub fn summary(&self) -> Sample {
        let mut sample = Sample::default();
        sample.add("count", self.0.len() as f64);
        for (name, share) in [("p25_ns", 0.25), ("p50_ns", 0.5), ("p75_ns", 0.75)] {
            sample.add(name, self.quantile(share));
        }
        sample
    }
}

/// How long an operation takes: `batches` samples of `operations` operations each. The first batch
/// only warms up.
pub fn batches(batches: usize, operations: u32, mut operation: impl FnMut()) -> Samples {
    let mut batch = || {
        let began = clock::ticks();
        for _ in 0..operations {
            operation();
        }
        elapsed_ns(began) / f64::from(operations)
    };
    batch();
    Samples::of((0..batches).map(|_| batch()))
}

/// The time since these ticks, in nanoseconds.
pub fn elapsed_ns(began: u64) -> f64 {
    between_ns(began, clock::ticks())
}

/// The time from some ticks until others, in nanoseconds; 0 if the others are earlier.
pub fn between_ns(began: u64, ended: u64) -> f64 {
    clock::ticks_to_ns(ended.saturating_sub(began)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_and_nothing_has_none() {
        let samples = Samples::of([4.0, 1.0, f64::NAN, 3.0, 2.0]);
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(|share| samples.quantile(share)), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(samples.summary().values["count"], 4.0);
        let none = Samples::default();
        assert!(none.quantile(0.5).is_nan());
        assert_eq!(none.summary().values.len(), 1, "a figure is a number");
    }

    #[test]
    fn each_batch_makes_all_its_operations_and_the_first_is_no_sample() {
        let mut made = 0;
        let samples = batches(7, 5, || made += 1);
        assert_eq!((made, samples.0.len()), (8 * 5, 7));
    }
}
