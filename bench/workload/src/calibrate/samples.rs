//! Samples of one quantity, in nanoseconds if it is a time, and how they are taken.
//!
//! A single operation takes a few nanoseconds, and a look at the clock takes longer. So a sample is
//! a *batch*: many operations between two looks, and their mean. A batch is short (some 20 µs), so
//! most batches run without an interrupt or another thread in between. The median of the batches is
//! then the figure, and a disturbed batch only moves the upper quartile.

use crate::error::Error;
use crate::harness::Sample;
use crate::machine::stay_on;
use platform::clock;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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

// Threads that stay on one CPU each while they measure.
//
// Without that the kernel moves threads, and a figure is about no particular CPU. Two threads
// begin only when both are where they belong: a thread whose partner was refused its CPU would
// wait for it forever.

const REFUSED: &str = "run it where it may choose its CPUs";

/// What `measure` returns, on this CPU.
///
/// # Errors
/// If the thread may not run there.
pub fn alone<T: Send>(cpu: usize, measure: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let run = || stay_on(cpu).map(|()| measure());
    thread::scope(|scope| scope.spawn(run).join())
        .expect("what is measured does not panic")
        .map_err(|why| Error::request(why, REFUSED))
}

/// What two threads return, each on its CPU; they begin together.
///
/// # Errors
/// If one of them may not run there; then neither runs.
pub fn pair<A: Send, B: Send>(
    cpus: [usize; 2],
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> Result<(A, B), Error> {
    let (barrier, is_refused) = (Barrier::new(2), AtomicBool::new(false));
    let begin = |cpu| {
        let stays = stay_on(cpu);
        // Relaxed: the barrier orders it.
        is_refused.fetch_or(stays.is_err(), Ordering::Relaxed);
        barrier.wait();
        stays.and_then(|()| match is_refused.load(Ordering::Relaxed) {
            true => Err(format!("CPU {cpu}: its partner was refused")),
            false => Ok(()),
        })
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| begin(cpus[0]).map(|()| one()));
        let other = scope.spawn(|| begin(cpus[1]).map(|()| other()));
        (one.join(), other.join())
    });
    let both = one.expect("it does not panic").and_then(|one| Ok((one, other.expect("nor does this")?)));
    both.map_err(|why| Error::request(why, REFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::cpus;

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

    /// No machine has it.
    const NOWHERE: usize = 1023;

    #[test]
    fn threads_run_where_they_are_put() {
        let all = cpus();
        let (first, last) = (all[0], *all.last().unwrap());
        assert_eq!(alone(last, cpus).unwrap(), [last]);
        assert_eq!(pair([first, last], cpus, cpus).unwrap(), (vec![first], vec![last]));
    }

    #[test]
    fn if_one_is_refused_neither_runs() {
        let first = cpus()[0];
        assert!(alone(NOWHERE, || panic!("it runs")).is_err());
        for cpus in [[first, NOWHERE], [NOWHERE, first]] {
            let refused = pair(cpus, || panic!("it runs"), || panic!("it runs"));
            assert!(matches!(refused, Err(Error::Request { .. })));
        }
    }
}
