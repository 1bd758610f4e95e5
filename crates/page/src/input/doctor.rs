//! What a page reads of `manx doctor`.

use super::{Latencies, Machine};
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Remedy {
    pub(crate) what: String,
    pub(crate) command: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Verdict {
    pub(crate) title: String,
    pub(crate) curable: bool,
    pub(crate) cause: String,
    pub(crate) severity: Option<f64>,
    pub(crate) headline: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) remedies: Vec<Remedy>,
    pub(crate) doubts: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Thread {
    pub(crate) tid: i64,
    pub(crate) name: String,
    pub(crate) run_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) samples: u64,
    pub(crate) waiting_samples: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    pub(crate) group: String,
    pub(crate) cpus: Option<f64>,
    pub(crate) periods: u64,
    pub(crate) throttled: u64,
    pub(crate) throttled_ns: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) cpus: Option<f64>,
    pub(crate) spinning: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Load {
    pub(crate) busy_cpus: Option<f64>,
    pub(crate) idle_cpus: Option<f64>,
    pub(crate) stolen_cpus: Option<f64>,
    pub(crate) cpu_stalled: Option<f64>,
    pub(crate) memory_stalled: Option<f64>,
    pub(crate) io_stalled: Option<f64>,
    pub(crate) neighbours: Vec<Neighbour>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Place {
    pub(crate) module: String,
    pub(crate) function: String,
    pub(crate) waits: Option<String>,
    pub(crate) samples: u64,
}

/// The waits for a lock in one function.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Waits {
    pub(crate) function: String,
    pub(crate) count: u64,
    pub(crate) waited_ns: u64,
    pub(crate) max_ns: u64,
    /// `[the largest wait of the bucket, count]`
    pub(crate) histogram: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lock {
    pub(crate) address: u64,
    pub(crate) place: String,
    pub(crate) looks: u64,
    pub(crate) waiters: Option<f64>,
    pub(crate) waiters_max: u64,
    pub(crate) callers: Vec<(String, u64)>,
    pub(crate) waits: Vec<Waits>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Unseen {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) allow: String,
}

/// What a thread was seen doing, one letter a look.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Looks {
    pub(crate) tid: i64,
    pub(crate) name: String,
    pub(crate) states: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Timeline {
    pub(crate) looks_ns: Vec<u64>,
    pub(crate) threads: Vec<Looks>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Evidence {
    pub(crate) pid: i64,
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) span_ns: u64,
    pub(crate) looks: u64,
    pub(crate) ended: bool,
    pub(crate) own_cpus: Option<f64>,
    pub(crate) budget: Option<f64>,
    pub(crate) budget_why: String,
    pub(crate) threads: Vec<Thread>,
    pub(crate) groups: Vec<Group>,
    pub(crate) machine: Load,
    pub(crate) places: Vec<Place>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) timeline: Option<Timeline>,
}

/// The report on a process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub(crate) manx: Option<String>,
    pub(crate) machine: Machine,
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) evidence: Evidence,
}

/// How a figure changes under `manx run`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Change {
    pub(crate) figure: String,
    pub(crate) unit: String,
    /// `ratio` or `difference`
    pub(crate) kind: String,
    pub(crate) as_it_is: Option<f64>,
    pub(crate) manx_run: Option<f64>,
    pub(crate) pairs: u64,
    pub(crate) change: Option<f64>,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

/// A program as it is and under `manx run`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pairs {
    pub(crate) as_it_is: Report,
    pub(crate) changes: Vec<Change>,
    pub(crate) notes: Vec<String>,
}

impl Waits {
    pub(crate) fn latencies(&self) -> Latencies {
        Latencies::new(&self.histogram, self.max_ns)
    }
}

impl Evidence {
    /// A sum of times of threads as a number of threads.
    pub(crate) fn per_time(&self, of: fn(&Thread) -> u64) -> f64 {
        let sum = self.threads.iter().map(of).fold(0u64, u64::saturating_add);
        sum as f64 / self.span_ns.max(1) as f64
    }
}

impl Report {
    /// The process in a few words.
    pub(crate) fn title(&self) -> String {
        format!("{}, process {}", self.evidence.name, self.evidence.pid)
    }

    pub(crate) fn severity(&self) -> f64 {
        self.verdicts.iter().filter_map(|verdict| verdict.severity).fold(0.0, f64::max)
    }
}
