//! The figures of a run, as the child prints them and the parent reads them.

use serde::{Deserialize, Serialize};

use super::placement::FAR_NS;

/// The distance between the CPUs during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Both probes were short.
    Near,
    /// Both probes were long.
    Far,
    /// The probes before and after disagree.
    Mixed,
    /// One CPU, or one working thread: the distance does not matter.
    Alone,
}

/// Latencies of epochs in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
    /// The 99.9th percentile.
    pub p999_ns: f64,
    /// The longest.
    pub max_ns: f64,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Epochs per second of all threads.
    pub epochs_per_s: f64,
    /// Nanoseconds per epoch on the first thread's clock, for the uncontended case: per lock and
    /// unlock.
    pub pair_ns: f64,
    /// All threads' epochs.
    pub all: Latency,
    /// Epochs of the threads that are not slowed down.
    pub big: Latency,
    /// Epochs of the threads that are.
    pub little: Latency,
    /// The share of all epochs that the slowed threads made.
    pub little_part: f64,
    /// Epochs of the slowest thread over the mean.
    pub slowest_over_mean: f64,
    /// Epochs of the slowest thread over the fastest one's.
    pub slowest_over_fastest: f64,
    /// Round trips of a cache line before and after the run; empty if that does not matter.
    pub round_trips_ns: Vec<f64>,
}

impl Outcome {
    /// Where the CPUs were.
    pub fn placement(&self) -> Placement {
        let far = self.round_trips_ns.iter().filter(|&&ns| ns >= FAR_NS).count();
        match (self.round_trips_ns.len(), far) {
            (0, _) => Placement::Alone,
            (_, 0) => Placement::Near,
            (all, far) if all == far => Placement::Far,
            _ => Placement::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_is_what_both_probes_say() {
        let of = |probes: &[f64]| {
            let latency = Latency::default();
            let outcome = Outcome {
                epochs_per_s: 1.0,
                pair_ns: 0.0,
                all: latency,
                big: latency,
                little: latency,
                little_part: 0.0,
                slowest_over_mean: 1.0,
                slowest_over_fastest: 1.0,
                round_trips_ns: probes.to_vec(),
            };
            outcome.placement()
        };
        assert_eq!(of(&[149.0, 90.0]), Placement::Near);
        assert_eq!(of(&[FAR_NS, 400.0]), Placement::Far);
        assert_eq!(of(&[90.0, 400.0]), Placement::Mixed);
        assert_eq!(of(&[]), Placement::Alone);
    }
}
