//! Phases of a run against a server: their results, and the ratios of these.

use super::cases::{MANX, REDIS};
use crate::harness::Sample;
use report::{Compared, Counts, Histogram};
use std::collections::BTreeMap;

/// What a phase is called, and how the names of its figures begin.
pub(super) type Name = (&'static str, &'static str);

/// The figures of a phase.
pub(super) const FIGURES: [&str; 5] = ["per_s", "p50_ns", "p99_ns", "p999_ns", "max_ns"];

/// The result of a phase.
#[derive(Debug)]
pub(super) struct Phase {
    pub(super) latencies: Histogram,
    pub(super) per_s: f64,
}

/// The sample of a run with these phases.
pub(super) fn sample(names: &[Name], phases: &[Phase]) -> Sample {
    let (mut sample, mut whole) = (Sample::default(), BTreeMap::new());
    for ((name, start), phase) in names.iter().zip(phases) {
        sample.add(format!("{start}per_s"), phase.per_s);
        sample.add_tail(start, &phase.latencies);
        whole.insert(*name, Counts::from(&phase.latencies));
    }
    sample.with(&whole)
}

/// The ratios of these figures of all phases of a case.
pub(super) fn ratios(case: &str, names: &[Name], figures: &[&str]) -> Vec<Compared> {
    let phase = |start| {
        figures.iter().map(move |figure| Compared::new(case, MANX, REDIS, &format!("{start}{figure}")))
    };
    names.iter().flat_map(|(_, start)| phase(start)).collect()
}
