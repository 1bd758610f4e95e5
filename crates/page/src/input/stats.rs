//! What a page reads of `manx stats`.

use super::{Latencies, Machine};
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Site {
    pub(crate) module: String,
    pub(crate) symbol: Option<String>,
    pub(crate) offset: u64,
    pub(crate) how: String,
    pub(crate) reason: Option<String>,
    pub(crate) waits: u64,
    pub(crate) visits: u64,
    pub(crate) yields: u64,
    pub(crate) sleeps: u64,
    pub(crate) waited_ns: Option<u64>,
    pub(crate) longest_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Lock {
    pub(crate) address: u64,
    pub(crate) kind: String,
    pub(crate) module: Option<String>,
    pub(crate) symbol: Option<String>,
    pub(crate) offset: u64,
    pub(crate) waits: u64,
    pub(crate) hand_overs: u64,
    pub(crate) overdue: u64,
    pub(crate) waited_ns: Option<u64>,
    pub(crate) longest_ns: Option<u64>,
    /// `[the largest wait of the bucket, count]`
    pub(crate) wait_histogram: Option<Vec<(u64, u64)>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Epoch {
    /// A number or a name
    pub(crate) id: serde_json::Value,
    pub(crate) name: Option<String>,
    pub(crate) count: u64,
    pub(crate) missed: u64,
    pub(crate) target_ns: Option<u64>,
    pub(crate) longest_ns: Option<u64>,
    /// `[the largest latency of the bucket, count]`
    pub(crate) latency_histogram: Option<Vec<(u64, u64)>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Stats {
    pub(crate) manx: Option<String>,
    pub(crate) machine: Machine,
    pub(crate) program: String,
    pub(crate) pid: i64,
    pub(crate) state: String,
    pub(crate) started_unix_ms: u64,
    pub(crate) modules: u64,
    pub(crate) text_bytes: u64,
    pub(crate) scan_ns: u64,
    pub(crate) sites_dropped: u64,
    pub(crate) lock_waits_dropped: u64,
    pub(crate) mutexes_passed_on: u64,
    pub(crate) sites: Vec<Site>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) epochs: Vec<Epoch>,
}

fn place(module: &str, symbol: Option<&str>, offset: u64) -> String {
    let symbol = symbol.filter(|symbol| !symbol.is_empty());
    format!("{module}:{}", symbol.map_or_else(|| format!("{offset:#x}"), str::to_owned))
}

impl Site {
    /// Where it is.
    pub(crate) fn place(&self) -> String {
        place(&self.module, self.symbol.as_deref(), self.offset)
    }
}

impl Lock {
    /// Where it was first waited for, or its address.
    pub(crate) fn place(&self) -> String {
        match self.module.as_deref().filter(|module| !module.is_empty()) {
            Some(module) => place(module, self.symbol.as_deref(), self.offset),
            None => format!("{:#x}", self.address),
        }
    }

    pub(crate) fn latencies(&self) -> Option<Latencies> {
        latencies(self.wait_histogram.as_ref(), self.longest_ns)
    }
}

impl Epoch {
    /// The name of the kind of epoch.
    pub(crate) fn title(&self) -> String {
        match (&self.name, &self.id) {
            (Some(name), _) if !name.is_empty() => name.clone(),
            (_, serde_json::Value::String(name)) => name.clone(),
            (_, serde_json::Value::Null) => "requests".into(),
            (_, id) => format!("epoch {id}"),
        }
    }

    pub(crate) fn latencies(&self) -> Option<Latencies> {
        latencies(self.latency_histogram.as_ref(), self.longest_ns)
    }
}

fn latencies(buckets: Option<&Vec<(u64, u64)>>, longest_ns: Option<u64>) -> Option<Latencies> {
    let latencies = Latencies::new(buckets?, longest_ns.unwrap_or(0));
    (latencies.count() > 0).then_some(latencies)
}
