//! What a pass over the host has seen: numbers of the time since the pass before, so rates and not
//! totals.
//!
//! Shares of CPUs count threads: 1.5 is one and a half thread all the time. What could not be read,
//! or needs a second pass, is `None`, which the JSON writes as `null`.

use serde::Serialize;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// When, in milliseconds since 1970
    pub unix_ms: u64,
    /// The time since the pass before, in ns; 0 at the first pass
    pub span_ns: u64,
    /// The host
    pub host: Host,
    /// The processes, in the order of their numbers
    pub processes: Vec<Row>,
    /// The inside of one process, if it was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<Inside>,
}

/// The host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Host {
    /// How many CPUs are online
    pub cpus: Option<u32>,
    /// How many CPUs ran something
    pub busy_cpus: Option<f64>,
    /// How many CPUs the hypervisor gave to others
    pub stolen_cpus: Option<f64>,
    /// For which part of the time some thread waited for a CPU, 0 to 1 (`/proc/pressure/cpu`)
    pub stalled: Option<f64>,
    /// How many threads run or wish to, at this moment
    pub runnable: Option<u32>,
}

/// What is known of Manx in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manx {
    /// Nobody may look
    Unknown,
    /// It does not run under Manx
    #[default]
    No,
    /// It runs under Manx, without statistics
    On,
    /// It runs under Manx with statistics
    Counts,
}

impl Manx {
    /// Whether the process runs under Manx.
    pub fn is_on(self) -> bool {
        matches!(self, Manx::On | Manx::Counts)
    }
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The process id
    pub pid: u32,
    /// Its name, without control characters
    pub name: String,
    /// Its command line, or nothing
    pub command: String,
    /// Whether it runs under Manx
    pub manx: Manx,
    /// How many threads it has
    pub threads: u32,
    /// Of how many threads the run-queue delay is known
    pub threads_read: u32,
    /// How many CPUs it used
    pub cpus: Option<f64>,
    /// Run-queue delay: how many of its threads waited for a CPU, on average
    pub delay: Option<f64>,
    /// In which part of the periods its quota was used up, 0 to 1; `None` without a quota
    pub throttled: Option<f64>,
    /// CPU time lost to waiting in repaired loops, in CPUs: an estimate
    pub lost: Option<f64>,
    /// Loops that are repaired
    pub sites: Option<u32>,
    /// Locks that some thread waited for
    pub locks: Option<u32>,
    /// Waits for locks that ended, per second
    pub lock_waits_per_s: Option<f64>,
    /// Half of these waits took no longer, in ns
    pub p50_ns: Option<u64>,
    /// 99 % took no longer
    pub p99_ns: Option<u64>,
    /// The longest one
    pub max_ns: Option<u64>,
}

/// The inside of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Inside {
    /// The process id
    pub pid: u32,
    /// The group whose quota stops it most, in words
    pub group: Option<String>,
    /// Its threads, those that ran and waited most first
    pub threads: Vec<Thread>,
    /// Its repaired loops, those that threads waited in longest first
    pub loops: Vec<Loop>,
    /// Its contended locks, those that threads waited for longest first
    pub locks: Vec<Lock>,
    /// Answers of the trial, in words
    pub trials: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Thread {
    /// The thread id
    pub tid: u32,
    /// Its name; empty if it was not read
    pub name: String,
    /// How much of a CPU it used
    pub cpus: Option<f64>,
    /// For which part of the time it waited for a CPU
    pub delay: Option<f64>,
    /// How often it was given a CPU, per second
    pub slices_per_s: Option<f64>,
}

/// A repaired loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Loop {
    /// The file that has it
    pub module: String,
    /// The function and the offset in it, or the address in the file
    pub place: String,
    /// Waits that began, per second
    pub waits_per_s: f64,
    /// How many threads waited in it, on average
    pub waiting: f64,
    /// Yields per second
    pub yields_per_s: f64,
    /// Sleeps per second
    pub sleeps_per_s: f64,
    /// The longest wait since the program began, in ns
    pub longest_ns: u64,
}

/// A lock that some thread has waited for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lock {
    /// Its address
    pub address: u64,
    /// The file from which it was first waited for
    pub module: String,
    /// The function of that call and the offset in it, or the address in the file
    pub place: String,
    /// Waits that ended, per second
    pub waits_per_s: f64,
    /// How many threads waited for it, on average
    pub waiting: f64,
    /// Half of the waits took no longer, in ns
    pub p50_ns: Option<u64>,
    /// 99 % took no longer
    pub p99_ns: Option<u64>,
    /// The longest one
    pub max_ns: Option<u64>,
    /// Waits per second that were longer than their window
    pub starving_per_s: f64,
}
