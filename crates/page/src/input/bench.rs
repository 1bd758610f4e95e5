//! What a page reads of `manx bench`: version 1 and 2 of its JSON.

use super::{Latencies, Machine};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One run of one version.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    pub(crate) case: String,
    pub(crate) variant: String,
    pub(crate) round: u64,
    /// A figure that is no number is `null`
    pub(crate) values: BTreeMap<String, Option<f64>>,
    pub(crate) output: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) number: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A ratio of pairs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ratio {
    pub(crate) case: String,
    pub(crate) over: String,
    pub(crate) under: String,
    pub(crate) measure: String,
    pub(crate) pairs: Vec<Option<f64>>,
    pub(crate) ratio: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

/// The verdict on a target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) measured: Option<f64>,
    pub(crate) to_reach: String,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) pairs: Option<u64>,
    pub(crate) verdict: String,
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) bench: String,
    pub(crate) manx: String,
    pub(crate) started_unix_s: u64,
    pub(crate) wall_s: Option<f64>,
    pub(crate) quick: bool,
    pub(crate) interrupted: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) machine: Machine,
    pub(crate) notes: Vec<String>,
    pub(crate) runs: Vec<Run>,
    pub(crate) tables: Vec<Table>,
    pub(crate) ratios: Vec<Ratio>,
    pub(crate) targets: Vec<Target>,
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
