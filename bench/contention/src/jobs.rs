//! What a pool of threads has to do, and what comes of it.

use crate::run::Burn;
use report::Histogram;
use std::time::Duration;

crate::named! {
    /// The choice of how many workers of a pool are active.
    pub enum Rules {
        /// Nothing: all are.
        All = "ignorant",
        /// The rules of the paper on friendly pools.
        Paper = "friendlypool",
        /// Manx's.
        Manx = "manx",
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
    /// How many there are
    pub workers: usize,
    /// How long a job takes, in nanoseconds on the fastest CPU
    pub job_ns: u64,
    /// The time from one job to the next
    pub every_ns: u64,
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
    /// Jobs a second that ended in time
    pub jobs_per_s: f64,
    /// Of all jobs, the part that had not ended in time
    pub left: f64,
    /// How many workers were to be active at the end
    pub active: u32,
}
