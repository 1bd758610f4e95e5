//! A run as figures by name, with its whole histograms as JSON.

use super::spec::{Load, Outcome};
use crate::harness::Sample;
use report::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parts of a run that are kept beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub struct Output {
    /// The histograms of all its processes together
    pub histograms: BTreeMap<String, Histogram>,
    /// Each process' own figures
    pub processes: Vec<BTreeMap<String, f64>>,
}

/// The figures of all processes together; if `apart`, also those of the first and of the second
/// process. `load` is the load of one process, if the processes serve one; `throttled` is the share
/// of periods in which a quota stopped them.
pub fn sample(
    load: Option<&Load>,
    apart: bool,
    cpus: usize,
    outcomes: &[Outcome],
    throttled: Option<f64>,
) -> Sample {
    let sum = Outcome::sum(outcomes);
    let mut sample = Sample::default();
    latencies("", &sum, &mut sample);
    if let Some(load) = load {
        let seconds = load.time.as_secs_f64();
        let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.value("done") / seconds).collect();
        let all: f64 = rates.iter().sum();
        sample.add("jobs_per_s", all);
        sample.add("offered_per_s", sum.value("offered") / seconds);
        sample.add("unfinished_share", sum.value("unfinished") / sum.value("offered"));
        let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
        sample.add("slowest_share", slowest * rates.len() as f64 / all);
        sample.add("cpu_share", sum.value("cpu_ns") / (seconds * 1e9 * cpus as f64));
        if sum.values.contains_key("control_ns") {
            sample.add("control_percent", 100.0 * sum.value("control_ns") / sum.value("cpu_ns"));
            sample.add("preemptions_per_s", sum.value("preemptions") / seconds);
            sample.add("run_queue_share", sum.value("wait_ns") / (seconds * 1e9 * cpus as f64));
        }
        if apart {
            for (name, (outcome, rate)) in ["first", "second"].iter().zip(outcomes.iter().zip(&rates)) {
                sample.add(format!("{name}_per_s"), *rate);
                latencies(&format!("{name}_"), outcome, &mut sample);
            }
            sample.add("first_over_second", rates[0] / rates[1]);
        }
    } else {
        sum.values.iter().for_each(|(name, value)| sample.add(name.clone(), *value));
    }
    sample.add("throttled_share", throttled.unwrap_or(f64::NAN));
    let processes = outcomes.iter().map(|outcome| outcome.values.clone()).collect();
    sample.with(&Output { histograms: sum.histograms, processes })
}

/// The percentiles of every histogram, each with its maximum.
fn latencies(start: &str, outcome: &Outcome, sample: &mut Sample) {
    for (name, histogram) in &outcome.histograms {
        sample.add_tail(&format!("{start}{name}_"), histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(done: f64, total_ns: u64) -> Outcome {
        let mut total = Histogram::new();
        total.record(total_ns);
        let values = [("done", done), ("offered", 2.0 * done), ("unfinished", done / 2.0), ("cpu_ns", 1e9)];
        Outcome::of([("total", total)], values)
    }

    #[test]
    fn two_processes_have_a_sum_and_figures_of_their_own() {
        let time = Duration::from_secs(2);
        let load = Load { rate_per_s: 1.0, poisson: false, phase: 0.0, pause: None, time, drain: time };
        let sample = sample(Some(&load), true, 2, &[outcome(10.0, 500), outcome(30.0, 700)], Some(0.5));
        let value = |name: &str| sample.values[name];
        assert_eq!((value("jobs_per_s"), value("slowest_share")), (20.0, 0.5));
        assert_eq!((value("first_per_s"), value("second_per_s")), (5.0, 15.0));
        assert!((value("first_over_second") - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!((value("total_max_ns"), value("first_total_p99_ns")), (700.0, 500.0));
        assert_eq!(
            (value("unfinished_share"), value("cpu_share"), value("throttled_share")),
            (0.25, 0.5, 0.5)
        );
        assert!(!sample.values.contains_key("control_percent"), "nobody said what control costs");
        let output: Output = serde_json::from_str(sample.output.unwrap().get()).unwrap();
        assert_eq!((output.histograms["total"].count(), output.processes.len()), (2, 2));
    }

    #[test]
    fn a_figure_that_is_not_a_number_is_left_out() {
        let idle = Outcome::of([], [("idle_cpu_percent", 1.5)]);
        let sample = sample(None, false, 2, &[idle], None);
        assert_eq!(sample.values.len(), 1);
    }
}
