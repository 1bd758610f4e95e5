//! The task of a measured process, and its outcome. Both are passed as JSON.

use report::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How a pool is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Its threads, at most
    pub threads: usize,
    /// The paper's factor: this number of times its part of the CPUs
    pub overcommit: f64,
    /// How often the paper's control thread looks
    pub tick: Duration,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { threads: 1, overcommit: 1.0, tick: Duration::from_millis(10) }
    }
}

contention::named! {
    /// The lock under which the computation runs.
    #[derive(Serialize, Deserialize)]
    pub enum Lock {
        /// Nothing
        None = "none",
        /// One `std::sync::Mutex` of the process
        Std = "std",
        /// One `parking_lot::Mutex`
        ParkingLot = "parking_lot",
        /// One `manx::lock::Mutex`
        Manx = "manx",
    }
}

/// An open loop: jobs arrive at their times, whether or not earlier jobs have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Jobs a second
    pub rate_per_s: f64,
    /// Jobs arrive at random times at the same mean rate; otherwise at equal distances
    pub poisson: bool,
    /// The arrival of the first job, as a share of the distance, from 0 to 1; also the random seed
    pub phase: f64,
    /// Jobs arrive for this time, then none arrive for this time, and so on
    pub pause: Option<Duration>,
    /// How long jobs arrive
    pub time: Duration,
    /// How long after that jobs that still wait may begin
    pub drain: Duration,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Computes for the requests of an open loop.
    Serve(Load),
    /// Again and again, after a rest, gets as many jobs at once as the pool has threads.
    Burst {
        /// How many bursts
        times: u32,
        /// The rest before each burst
        rest: Duration,
    },
    /// Has a pool that is idle.
    Idle {
        /// For this time
        time: Duration,
    },
    /// Runs jobs that do nothing.
    Submit {
        /// How many in a batch
        jobs: u32,
        /// How many batches
        batches: u32,
        /// Submitted by a job; otherwise by a thread that is not the pool's
        inside: bool,
    },
}

/// One process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// The kind of its pool
    pub kind: Kind,
    /// Its shape
    pub shape: Shape,
    /// The lock under which it computes
    pub lock: Lock,
    /// Its task
    pub task: Task,
    /// The folders of its control groups; if empty, it stays in those of its parent
    pub groups: Vec<PathBuf>,
    /// Another program that does the task: the words of its command before its own options
    pub program: Vec<PathBuf>,
    /// Variables that are set in its environment
    pub environment: BTreeMap<String, String>,
}

/// Processes that begin at the same moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crowd {
    /// The processes
    pub processes: Vec<Process>,
    /// A session, and with it an autogroup, for each; otherwise one for all
    pub sessions: bool,
}

/// The outcome of a process: histograms and figures by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Histograms of times
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// All other figures; the figures of several processes can be added
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
}

impl Outcome {
    /// These histograms and figures.
    pub fn of<'a, const N: usize>(
        histograms: [(&str, Histogram); N],
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Outcome {
        Outcome {
            histograms: histograms.map(|(name, histogram)| (name.to_owned(), histogram)).into(),
            values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// A figure; 0 if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// The outcomes of several processes as one outcome.
    pub fn sum(all: &[Outcome]) -> Outcome {
        let mut sum = Outcome::default();
        for outcome in all {
            for (name, histogram) in &outcome.histograms {
                sum.histograms.entry(name.clone()).or_default().merge(histogram);
            }
            for (name, value) in &outcome.values {
                *sum.values.entry(name.clone()).or_default() += value;
            }
        }
        sum
    }
}

contention::named! {
    /// A kind of pool.
    #[derive(Serialize, Deserialize)]
    pub enum Kind {
        /// A thread for each CPU at one channel, whatever else runs there.
        Ignorant = "ignorant",
        /// The same with the CPUs divided by the number of processes: the choice of a user that
        /// knew that number.
        Optimal = "optimal",
        /// The paper's friendlypool: this process' part of the CPU time of all, looked at each
        /// tick.
        FriendlyPool = "friendlypool",
        /// Manx's, as it comes.
        Manx = "manx",
        /// Rayon's.
        Rayon = "rayon",
        /// Tokio's.
        Tokio = "tokio",
        /// Rayon's; its workers follow the CPU budget.
        RayonGate = "rayon+gate",
        /// Tokio's, the same.
        TokioGate = "tokio+gate",
        /// Go's own scheduler, in a program of its own.
        Go = "go",
    }
}

/// The parts of a run that are kept beside its figures.
#[derive(Debug, Serialize, Deserialize)]
pub struct Output {
    /// The histograms of all its processes together
    pub histograms: BTreeMap<String, Histogram>,
    /// Each process' own figures
    pub processes: Vec<BTreeMap<String, f64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_are_as_one() {
        let outcome = |value: u64| {
            let mut latencies = Histogram::new();
            latencies.record(value);
            Outcome::of([("total", latencies)], [("done", value as f64)])
        };
        let sum = Outcome::sum(&[outcome(5), outcome(7)]);
        assert_eq!((sum.value("done"), sum.value("other")), (12.0, 0.0));
        assert_eq!((sum.histograms["total"].count(), sum.histograms["total"].summary().max_ns), (2, 7));
    }

    #[test]
    fn every_kind_is_listed_where_it_is_declared_under_a_name_of_its_own() {
        for (at, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at);
            assert!(Kind::ALL[..at].iter().all(|other| other.name() != kind.name()));
        }
        assert_eq!(Kind::ALL.last(), Some(&Kind::Go), "the last one");
    }
}
