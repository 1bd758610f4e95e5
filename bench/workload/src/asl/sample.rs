//! A run as figures by name, with its whole histograms and its timeline as JSON.

use super::run::{Measurement, Run, Window};
use super::timeline::{Slice, Timeline};
use crate::harness::Sample;
use report::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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
    let mut sample = Sample::of([
        ("epochs_per_s", found.epochs_per_s),
        ("slowest_share", found.slowest_share),
        ("dilation", found.dilation),
        ("little_epochs", found.little.count() as f64),
    ]);
    let mut add = |name: String, value: f64| sample.values.insert(name, value);
    latencies("", &found.big, &found.little, &mut add);
    match run.window {
        Window::Fixed(ns) => add("window_ns".into(), ns as f64),
        Window::ByLength { short_ns, long_ns } => {
            add("short_window_ns".into(), short_ns as f64);
            add("window_ns".into(), long_ns as f64)
        }
        Window::Slo { ns, percentile } => {
            let allowed = 1.0 - f64::from(percentile.hundredths()) / 10_000.0;
            let missed = found.missed as f64 / found.little.count().max(1) as f64;
            add("slo_ns".into(), ns as f64);
            add("missed_share".into(), missed);
            add("missed_over_allowed".into(), missed / allowed);
            add("little_epochs_wanted".into(), run.little_epochs as f64);
            add("window_ns".into(), found.window_ns)
        }
    };
    let Timeline { slices, stretches } = found.timeline.unwrap_or_default();
    for stretch in &stretches {
        let part = format!("{}: ", stretch.name);
        latencies(&part, &stretch.big, &stretch.little, &mut add);
        let seconds = run.time.as_secs_f64() * stretch.slices as f64 / slices.len() as f64;
        let epochs = stretch.big.count() + stretch.little.count();
        add(format!("{part}epochs_per_s"), epochs as f64 / seconds);
        add(format!("{part}little_epochs"), stretch.little.count() as f64);
        add(format!("{part}window_ns"), stretch.window_ns);
    }
    // What a run without little threads, or without an epoch, says nothing about; JSON has no word
    // for it.
    sample.values.retain(|_, value| value.is_finite());
    let output = Output { big: found.big, little: found.little, slices };
    let text = serde_json::to_string(&output).ok();
    sample.output = text.and_then(|text| RawValue::from_string(text).ok());
    sample
}

/// Percentiles, by class, of those classes that there are.
fn latencies(
    part: &str,
    big: &Histogram,
    little: &Histogram,
    add: &mut impl FnMut(String, f64) -> Option<f64>,
) {
    let mut all = Histogram::new();
    all.merge(big);
    all.merge(little);
    let groups = [("big", big), ("little", little), ("all", &all)];
    for (who, latencies) in groups.into_iter().filter(|(_, latencies)| latencies.count() > 0) {
        let summary = latencies.summary();
        add(format!("{part}{who}_p50_ns"), summary.p50_ns as f64);
        add(format!("{part}{who}_p99_ns"), summary.p99_ns as f64);
        add(format!("{part}{who}_p999_ns"), summary.p999_ns as f64);
        add(format!("{part}{who}_max_ns"), summary.max_ns as f64);
    }
}
