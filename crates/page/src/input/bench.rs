//! What a page reads of `manx bench`: version 1 and 2 of its JSON.

use super::latencies::Latencies;
use super::machine::Machine;
use serde_json::Value;
use std::collections::BTreeMap;

read! {
    /// One run of one version.
    struct Run {
        case: String,
        variant: String,
        round: u64,
        /// A figure that is no number is `null`
        values: BTreeMap<String, Option<f64>>,
        output: Option<Value>,
    }

    struct Column {
        name: String,
        unit: String,
        number: bool,
    }

    struct Table {
        title: String,
        columns: Vec<Column>,
        rows: Vec<Vec<String>>,
    }

    /// A ratio of pairs.
    struct Ratio {
        case: String,
        over: String,
        under: String,
        measure: String,
        pairs: Vec<Option<f64>>,
        ratio: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
    }

    /// The verdict on a target.
    struct Target {
        name: String,
        unit: String,
        measured: Option<f64>,
        to_reach: String,
        interval: Option<(f64, f64)>,
        pairs: Option<u64>,
        verdict: String,
        reason: Option<String>,
    }

    struct Report {
        bench: String,
        manx: String,
        started_unix_s: u64,
        wall_s: Option<f64>,
        quick: bool,
        interrupted: bool,
        seed: Option<u64>,
        machine: Machine,
        notes: Vec<String>,
        runs: Vec<Run>,
        tables: Vec<Table>,
        ratios: Vec<Ratio>,
        targets: Vec<Target>,
    }
}

impl Run {
    /// A figure, if it is a number.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied().flatten().filter(|value| value.is_finite())
    }

    /// The histograms of the run's output by name; `""` if the output itself is one.
    fn histograms(&self) -> Vec<(String, Latencies)> {
        let Some(output) = &self.output else { return vec![] };
        if let Some(own) = Latencies::of(output) {
            return vec![(String::new(), own)];
        }
        let members = output.as_object().into_iter().flatten();
        members.filter_map(|(name, value)| Some((name.clone(), Latencies::of(value)?))).collect()
    }

    /// The histograms of each second, of the first name that has them.
    pub(crate) fn seconds(&self) -> Vec<Latencies> {
        let seconds = self.output.as_ref().and_then(|output| output.get("seconds")?.as_array());
        let of = |second: &Value| {
            let mut all = Latencies::default();
            let parts =
                second.as_object().into_iter().flatten().filter_map(|(_, value)| Latencies::of(value));
            parts.for_each(|part| all.merge(&part));
            all
        };
        seconds.into_iter().flatten().map(of).collect()
    }
}

impl Report {
    /// The cases, in the order in which they were measured first.
    pub(crate) fn cases(&self) -> Vec<&str> {
        in_order(self.runs.iter().map(|run| run.case.as_str()))
    }

    /// A case's versions, in the order in which they were measured first.
    pub(crate) fn versions(&self, case: &str) -> Vec<&str> {
        in_order(self.runs.iter().filter(|run| run.case == case).map(|run| run.variant.as_str()))
    }

    pub(crate) fn runs_of<'a>(&'a self, case: &'a str, version: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case == case && run.variant == version)
    }

    /// The names of a case's figures.
    pub(crate) fn figures(&self, case: &str) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in self.runs.iter().filter(|run| run.case == case) {
            names.extend(run.values.keys().map(String::as_str));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A figure in all rounds of a version.
    pub(crate) fn values(&self, case: &str, version: &str, figure: &str) -> Vec<f64> {
        self.runs_of(case, version).filter_map(|run| run.figure(figure)).collect()
    }

    /// A version's histograms, all rounds of each name together, without those that are empty or
    /// equal to one before. `all` comes first.
    pub(crate) fn latencies(&self, case: &str, version: &str) -> Vec<(String, Latencies)> {
        let mut together: BTreeMap<(bool, String), Latencies> = BTreeMap::new();
        for (name, latencies) in self.runs_of(case, version).flat_map(Run::histograms) {
            together.entry((name != "all", name)).or_default().merge(&latencies);
        }
        let mut distinct: Vec<(String, Latencies)> = Vec::new();
        for ((_, name), latencies) in together {
            if latencies.count() > 0 && !distinct.iter().any(|(_, other)| *other == latencies) {
                distinct.push((name, latencies));
            }
        }
        distinct
    }
}

/// Each name once, where it comes first.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let (mut once, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
    for name in names {
        if seen.insert(name) {
            once.push(name);
        }
    }
    once
}
