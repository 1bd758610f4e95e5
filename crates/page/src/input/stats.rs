//! What a page reads of `manx stats`.

use super::latencies::Latencies;
use super::machine::Machine;

read! {
    struct Site {
        module: String,
        symbol: Option<String>,
        offset: u64,
        how: String,
        reason: Option<String>,
        waits: u64,
        visits: u64,
        yields: u64,
        sleeps: u64,
        waited_ns: Option<u64>,
        longest_ns: Option<u64>,
    }

    struct Lock {
        address: u64,
        kind: String,
        module: Option<String>,
        symbol: Option<String>,
        offset: u64,
        waits: u64,
        hand_overs: u64,
        overdue: u64,
        waited_ns: Option<u64>,
        longest_ns: Option<u64>,
        /// `[the largest wait of the bucket, count]`
        wait_histogram: Option<Vec<(u64, u64)>>,
    }

    struct Epoch {
        /// A number or a name
        id: serde_json::Value,
        name: Option<String>,
        count: u64,
        missed: u64,
        target_ns: Option<u64>,
        longest_ns: Option<u64>,
        /// `[the largest latency of the bucket, count]`
        latency_histogram: Option<Vec<(u64, u64)>>,
    }

    struct Stats {
        manx: Option<String>,
        machine: Machine,
        program: String,
        pid: i64,
        state: String,
        started_unix_ms: u64,
        modules: u64,
        text_bytes: u64,
        scan_ns: u64,
        sites_dropped: u64,
        lock_waits_dropped: u64,
        mutexes_passed_on: u64,
        sites: Vec<Site>,
        locks: Vec<Lock>,
        epochs: Vec<Epoch>,
    }
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
