//! What a measured process is told to do, and what it says afterwards. Both travel as JSON.

use super::kind::Kind;
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

/// Under what the computation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lock {
    /// Nothing
    None,
    /// One `std::sync::Mutex` of the process
    Std,
    /// One `parking_lot::Mutex`
    ParkingLot,
    /// One `manx::lock::Mutex`
    Manx,
}

impl Lock {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Lock::None => "none",
            Lock::Std => "std",
            Lock::ParkingLot => "parking_lot",
            Lock::Manx => "manx",
        }
    }
}

/// An open loop: jobs come when they come, whatever became of those before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Jobs a second
    pub rate_per_s: f64,
    /// They come at random, as often; otherwise one after the other at equal distances
    pub poisson: bool,
    /// Where the first one lies within its distance, from 0 to 1, and where randomness begins
    pub phase: f64,
    /// Half of the time none come: for this time, after as long with jobs
    pub pause: Option<Duration>,
    /// How long they come
    pub time: Duration,
    /// How long afterwards jobs that still wait may begin
    pub drain: Duration,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Task {
    /// Computes for requests that come in an open loop.
    Serve(Load),
    /// Now and then, after a time of nothing, gets as many jobs at once as the pool has threads.
    Burst {
        /// How often
        times: u32,
        /// The time of nothing before
        rest: Duration,
    },
    /// Has a pool, and nothing for it to do.
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
    /// Under what it computes
    pub lock: Lock,
    /// What it does
    pub task: Task,
    /// The folders of its control groups; none for those it is born in
    pub groups: Vec<PathBuf>,
    /// Another program that does it: its path and, before its own arguments, any that start it
    pub program: Vec<PathBuf>,
    /// What is set in its environment
    pub environment: BTreeMap<String, String>,
}

/// Processes that begin at the same moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crowd {
    /// They
    pub processes: Vec<Process>,
    /// A session, and with it an autogroup, for each; otherwise one for all
    pub sessions: bool,
}

/// What a process says: histograms and figures by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Of times
    #[serde(default)]
    pub histograms: BTreeMap<String, Histogram>,
    /// All others; every one can be added to another process'
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
}

impl Outcome {
    /// A figure; 0 if there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    /// All that several processes say, as if it were one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_are_as_one() {
        let outcome = |value: u64| {
            let mut latencies = Histogram::new();
            latencies.record(value);
            Outcome {
                histograms: [("total".to_owned(), latencies)].into(),
                values: [("done".to_owned(), value as f64)].into(),
            }
        };
        let sum = Outcome::sum(&[outcome(5), outcome(7)]);
        assert_eq!((sum.value("done"), sum.value("other")), (12.0, 0.0));
        assert_eq!((sum.histograms["total"].count(), sum.histograms["total"].summary().max_ns), (2, 7));
    }

    #[test]
    fn what_a_process_is_told_arrives_as_it_was_said() {
        let load = Load {
            rate_per_s: 1200.0,
            poisson: true,
            phase: 0.25,
            pause: Some(Duration::from_millis(500)),
            time: Duration::from_secs(5),
            drain: Duration::ZERO,
        };
        let process = Process {
            kind: Kind::Go,
            shape: Shape::default(),
            lock: Lock::ParkingLot,
            task: Task::Serve(load),
            groups: vec!["/a/b".into()],
            program: vec!["x".into()],
            environment: [("GOMAXPROCS".to_owned(), "1".to_owned())].into(),
        };
        let crowd = Crowd { processes: vec![process], sessions: true };
        let text = serde_json::to_string(&crowd).unwrap();
        assert_eq!(serde_json::from_str::<Crowd>(&text).unwrap(), crowd);
    }
}
