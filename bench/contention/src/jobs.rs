//! The work of a pool of threads, beside other pools or not, and its outcome.

use crate::run::Burn;
use report::Histogram;
use std::path::PathBuf;
use std::time::Duration;

crate::named! {
    /// The choice of how many workers of a pool are active.
    pub enum Rules {
        /// Nothing: all are.
        All = "ignorant",
        /// Nothing, in a pool that has its part of the CPUs as threads: the choice of a user who
        /// knew the number of processes.
        Optimal = "optimal",
        /// The rules of the paper on friendly pools.
        Paper = "friendlypool",
        /// Manx's.
        Manx = "manx",
        /// Manx's, in processes that divide the CPUs by a registry.
        Registry = "registry",
    }
}

impl Rules {
    /// The rules of this name.
    pub fn named(name: &str) -> Option<Rules> {
        Rules::ALL.into_iter().find(|rules| rules.name() == name)
    }
}

/// Jobs that come at equal distances, whether or not earlier ones have ended.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// How many workers are active
    pub rules: Rules,
    /// The file of the registry, for [`Rules::Registry`]
    pub registry: PathBuf,
    /// How many there are
    pub workers: usize,
    /// How long a job takes, in nanoseconds on the fastest CPU
    pub job_ns: u64,
    /// The time from one job to the next
    pub every_ns: u64,
    /// The time until the first job
    pub phase_ns: u64,
    /// How jobs spend their time
    pub burn: Burn,
    /// For how long jobs come
    pub time: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// From the moment at which a job was due until a worker began it
    pub queue: Histogram,
    /// From then until it had ended
    pub service: Histogram,
    /// Both together
    pub total: Histogram,
    /// Jobs that came; those that ended in time are in the histograms
    pub offered: u64,
    /// Number of jobs that had begun and not ended, on average: those on a CPU, and those that
    /// waited for one
    pub begun: f64,
    /// How many workers were to be active at the end
    pub active: u32,
}

impl Served {
    /// The outcome of several pools at the same time, together.
    pub fn together(pools: &[Served]) -> Served {
        let mut sum = Served::default();
        for pool in pools {
            sum.queue.merge(&pool.queue);
            sum.service.merge(&pool.service);
            sum.total.merge(&pool.total);
            sum.offered += pool.offered;
            sum.begun += pool.begun;
            sum.active += pool.active;
        }
        sum
    }
}
