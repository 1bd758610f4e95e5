//! A run as figures by name, with its whole histograms and its timeline as JSON.

use crate::harness::Sample;
use contention::measurement::Measurement;
use contention::run::{Run, Window};
use contention::timeline::{Slice, Timeline};
use report::Histogram;
use serde::{Deserialize, Serialize};

/// What is kept of a run beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Output {
    /// Epochs of big threads
    pub big: Histogram,
    /// Epochs of little threads
    pub little: Histogram,
    /// From one moment to the next
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
}

/// What tables, pictures and verdicts are made of.
pub(super) fn sample(found: Measurement, run: &Run) -> Sample {
    let mut sample = Sample::of([("slowest_share", found.slowest_share), ("dilation", found.dilation)]);
    latencies(&mut sample, "", &found.big, &found.little);
    sample.add("epochs_per_s", found.epochs_per_s);
    match run.window {
        Window::Fixed(ns) => sample.add("window_ns", ns as f64),
        Window::ByLength { short_ns, long_ns } => {
            sample.add("short_window_ns", short_ns as f64);
            sample.add("window_ns", long_ns as f64);
        }
        Window::Slo { ns, percentile } => {
            let allowed = 1.0 - f64::from(percentile.hundredths()) / 10_000.0;
            let missed = found.missed as f64 / found.little.count().max(1) as f64;
            sample.add("slo_ns", ns as f64);
            sample.add("missed_share", missed);
            sample.add("missed_over_allowed", missed / allowed);
            sample.add("little_epochs_wanted", run.little_epochs as f64);
            sample.add("window_ns", found.window_ns);
        }
    }
    let Timeline { slices, phases } = found.timeline.unwrap_or_default();
    for phase in &phases {
        let part = format!("{}: ", phase.name);
        let epochs = latencies(&mut sample, &part, &phase.big, &phase.little);
        let seconds = run.time.as_secs_f64() * phase.slices as f64 / slices.len() as f64;
        sample.add(format!("{part}epochs_per_s"), epochs as f64 / seconds);
        sample.add(format!("{part}window_ns"), phase.window_ns);
    }
    // Shares of a run without an epoch.
    sample.values.retain(|_, value| value.is_finite());
    sample.with(&Output { big: found.big, little: found.little, slices })
}

/// Percentiles by class, of those classes that there are. Returns the number of epochs.
fn latencies(sample: &mut Sample, part: &str, big: &Histogram, little: &Histogram) -> u64 {
    let all = [big.clone(), little.clone()].into_iter().sum();
    for (who, latencies) in [("big", big), ("little", little), ("all", &all)] {
        sample.add_tail(&format!("{part}{who}_"), latencies);
    }
    sample.add(format!("{part}little_epochs"), little.count() as f64);
    all.count()
}
