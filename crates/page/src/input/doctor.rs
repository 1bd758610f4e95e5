//! What a page reads of `manx doctor`.

use super::latencies::Latencies;
use super::machine::Machine;

read! {
    struct Remedy {
        what: String,
        command: Option<String>,
    }

    struct Verdict {
        title: String,
        curable: bool,
        cause: String,
        severity: Option<f64>,
        headline: String,
        evidence: Vec<String>,
        remedies: Vec<Remedy>,
        doubts: Vec<String>,
    }

    struct Thread {
        tid: i64,
        name: String,
        run_ns: u64,
        wait_ns: u64,
        voluntary: u64,
        involuntary: u64,
        samples: u64,
        waiting_samples: u64,
    }

    struct Group {
        group: String,
        cpus: Option<f64>,
        periods: u64,
        throttled: u64,
        throttled_ns: u64,
    }

    struct Neighbour {
        name: String,
        cpus: Option<f64>,
        spinning: Option<f64>,
    }

    struct Load {
        busy_cpus: Option<f64>,
        idle_cpus: Option<f64>,
        stolen_cpus: Option<f64>,
        cpu_stalled: Option<f64>,
        memory_stalled: Option<f64>,
        io_stalled: Option<f64>,
        neighbours: Vec<Neighbour>,
    }

    struct Place {
        module: String,
        function: String,
        waits: Option<String>,
        samples: u64,
    }

    /// The waits for a lock in one function.
    struct Waits {
        function: String,
        count: u64,
        waited_ns: u64,
        max_ns: u64,
        /// `[the largest wait of the bucket, count]`
        histogram: Vec<(u64, u64)>,
    }

    struct Lock {
        address: u64,
        place: String,
        looks: u64,
        waiters: Option<f64>,
        waiters_max: u64,
        callers: Vec<(String, u64)>,
        waits: Vec<Waits>,
    }

    struct Unseen {
        what: String,
        why: String,
        allow: String,
    }

    /// What a thread was seen doing, one letter a look.
    struct Looks {
        tid: i64,
        name: String,
        states: String,
    }

    struct Timeline {
        looks_ns: Vec<u64>,
        threads: Vec<Looks>,
    }

    struct Evidence {
        pid: i64,
        name: String,
        command: Vec<String>,
        span_ns: u64,
        looks: u64,
        ended: bool,
        own_cpus: Option<f64>,
        budget: Option<f64>,
        budget_why: String,
        threads: Vec<Thread>,
        groups: Vec<Group>,
        machine: Load,
        places: Vec<Place>,
        locks: Vec<Lock>,
        unseen: Vec<Unseen>,
        timeline: Option<Timeline>,
    }

    /// The report on a process.
    struct Report {
        manx: Option<String>,
        machine: Machine,
        verdicts: Vec<Verdict>,
        evidence: Evidence,
    }

    /// How a figure changes under `manx run`.
    struct Change {
        figure: String,
        unit: String,
        /// `ratio` or `difference`
        kind: String,
        /// `less` or `more`, of a figure of work
        better: Option<String>,
        as_it_is: Option<f64>,
        manx_run: Option<f64>,
        pairs: u64,
        change: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
    }

    /// A program as it is and under `manx run`.
    struct Pairs {
        as_it_is: Report,
        changes: Vec<Change>,
        notes: Vec<String>,
    }
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
