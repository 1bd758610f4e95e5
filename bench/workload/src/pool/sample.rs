//! A run as figures by name, with its whole histograms as JSON.

use super::spec::Outcome;
use super::variant::Variant;
use crate::harness::Sample;
use report::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is kept of a run beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub struct Output {
    /// Of all its processes
    pub histograms: BTreeMap<String, Histogram>,
    /// Each process' own figures
    pub processes: Vec<BTreeMap<String, f64>>,
}

/// What the processes of a variant said, as if they were one; where they are told apart, of the
/// first two also what each of them did. `throttled` is the part of periods that a quota ended.
pub fn sample(variant: &Variant, cpus: usize, outcomes: &[Outcome], throttled: Option<f64>) -> Sample {
    let sum = Outcome::sum(outcomes);
    let mut sample = Sample::default();
    latencies("", &sum, &mut sample);
    if let Some(load) = variant.load() {
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
        if variant.apart {
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
    use crate::pool::kind::Kind;
    use crate::pool::spec::{Load, Task};
    use crate::pool::variant::process;
    use std::time::Duration;

    fn outcome(done: f64, total_ns: u64) -> Outcome {
        let mut total = Histogram::new();
        total.record(total_ns);
        let values = [("done", done), ("offered", 2.0 * done), ("unfinished", done / 2.0), ("cpu_ns", 1e9)];
        Outcome {
            histograms: [("total".to_owned(), total)].into(),
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    #[test]
    fn two_processes_have_a_sum_and_figures_of_their_own() {
        let time = Duration::from_secs(2);
        let load = Load { rate_per_s: 1.0, poisson: false, phase: 0.0, pause: None, time, drain: time };
        let task = Task::Serve(load);
        let processes = vec![process(Kind::Manx, 2, task.clone()), process(Kind::Ignorant, 2, task)];
        let variant = Variant::of("v", processes).told_apart();
        let sample = sample(&variant, 2, &[outcome(10.0, 500), outcome(30.0, 700)], Some(0.5));
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
    fn nothing_is_divided_by_nothing() {
        let task = Task::Idle { time: Duration::from_secs(1) };
        let variant = Variant::of("v", vec![process(Kind::Tokio, 2, task)]);
        let mut said = Outcome::default();
        said.values.insert("idle_cpu_percent".into(), 1.5);
        let sample = sample(&variant, 2, &[said], None);
        assert_eq!(sample.values.len(), 1);
    }
}
