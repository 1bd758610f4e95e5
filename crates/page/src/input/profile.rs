//! What a page reads of `manx profile`.

use super::Machine;
use serde::Deserialize;

/// The version of the program that a run measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Variant {
    Plain,
    Fifo,
    SloNs(u64),
    #[serde(untagged)]
    Other(serde_json::Value),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Sweep {
    pub(crate) program: Vec<String>,
    pub(crate) epoch: Option<u64>,
    pub(crate) lock: String,
    pub(crate) percentile: u32,
    pub(crate) repeats: u64,
}

/// The medians of a version's runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Point {
    pub(crate) throughput_per_s: Option<f64>,
    pub(crate) tail_ns: Option<f64>,
    pub(crate) max_ns: Option<f64>,
    pub(crate) runs: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Advice {
    pub(crate) slo_ns: Option<u64>,
    pub(crate) reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conclusion {
    pub(crate) points: Vec<(Variant, Point)>,
    pub(crate) knee_slo_ns: Option<u64>,
    pub(crate) advice: Advice,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Profile {
    pub(crate) manx: String,
    pub(crate) machine: Machine,
    pub(crate) sweep: Sweep,
    pub(crate) conclusion: Option<Conclusion>,
}

impl Profile {
    /// `p99` or `p99.9`.
    pub(crate) fn percentile(&self) -> String {
        format!("p{}", f64::from(self.sweep.percentile) / 100.0)
    }
}
