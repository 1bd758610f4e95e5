//! What a page reads of `manx profile`.

use super::machine::Machine;
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

read! {
    struct Sweep {
        program: Vec<String>,
        epoch: Option<u64>,
        lock: String,
        percentile: u32,
        repeats: u64,
    }

    /// The medians of a version's runs.
    #[derive(PartialEq)]
    struct Point {
        throughput_per_s: Option<f64>,
        tail_ns: Option<f64>,
        max_ns: Option<f64>,
        runs: u64,
    }

    struct Advice {
        slo_ns: Option<u64>,
        reason: String,
    }

    struct Conclusion {
        points: Vec<(Variant, Point)>,
        knee_slo_ns: Option<u64>,
        advice: Advice,
    }

    struct Profile {
        manx: String,
        machine: Machine,
        sweep: Sweep,
        conclusion: Option<Conclusion>,
    }
}

impl Profile {
    /// `p99` or `p99.9`.
    pub(crate) fn percentile(&self) -> String {
        format!("p{}", f64::from(self.sweep.percentile) / 100.0)
    }
}
