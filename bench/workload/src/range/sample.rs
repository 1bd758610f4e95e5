//! A run as figures by name, with its whole histograms as JSON.

use super::run::Measurement;
use crate::harness::Sample;
use report::Histogram;
use serde::{Deserialize, Serialize};

/// Ranges locked and unlocked per second, by all threads.
pub(super) const PAIRS: &str = "pairs_per_s";

/// What is kept of a run beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Output {
    /// How long acquisitions took
    pub acquire: Histogram,
    /// How long the whole space took
    #[serde(default)]
    pub whole: Histogram,
}

/// Makes the sample of a run that counted and of a run that timed; both may be the same run.
pub(super) fn sample(counted: &Measurement, timed: Measurement) -> Sample {
    let mut sample = Sample::default();
    sample.add(PAIRS, counted.pairs_per_s);
    sample.add("slowest_share", counted.slowest_share);
    for (who, latencies) in [("acquire", &timed.latencies), ("whole", &timed.whole)] {
        if latencies.count() > 0 {
            sample.add(format!("{who}_count"), latencies.count() as f64);
            sample.add_tail(&format!("{who}_"), latencies);
        }
    }
    if timed.latencies.count() > 0 {
        sample.add("hold_max_ns", timed.hold_ns_max as f64);
    }
    if timed.whole.count() > 0 {
        sample.add("late_max_ns", timed.late_ns_max as f64);
        // Twice the longest hold, and the delay of the thread that is woken.
        let allowed_ns = 2 * timed.hold_ns_max + timed.late_ns_max;
        sample.add("whole_over_allowed", timed.whole.summary().max_ns as f64 / allowed_ns.max(1) as f64);
    }
    sample.with(&Output { acquire: timed.latencies, whole: timed.whole })
}

/// The results of a run that only counted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    /// Ranges locked and unlocked by each thread
    pub thread_pairs: Vec<u64>,
}

/// Of a run that only counted, with what each thread did.
pub(super) fn counted(found: &Measurement) -> Sample {
    Sample::of([(PAIRS, found.pairs_per_s), ("slowest_share", found.slowest_share)])
        .with(&Counted { thread_pairs: found.thread_pairs.clone() })
}

/// Of a run that checked.
pub(super) fn checked(found: &Measurement) -> Sample {
    Sample::of([("checked_pairs", found.pairs as f64), ("violations", found.violations as f64)])
}
