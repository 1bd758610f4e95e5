//! A change of the number of workers, and its reason in words.

use std::fmt;
use std::time::Instant;

/// A change of the number of workers that are to be active.
///
/// ```
/// let pool = manx::pool::FriendlyPool::builder().build()?;
/// if let Some(decision) = pool.stats().last {
///     println!("from {} workers to {}: {}", decision.from, decision.to, decision.why);
/// }
/// # Ok::<(), manx::pool::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Decision {
    /// When.
    pub at: Instant,
    /// How many were to be active before …
    pub from: u32,
    /// … and how many from then on.
    pub to: u32,
    /// Why.
    pub why: Why,
}

/// Why a pool grew or shrank. Shares are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Why {
    /// The workers waited for a CPU for this part of the time in which they wished to run, and got
    /// this number of CPUs.
    Waited {
        /// The part.
        waiting: f64,
        /// The CPUs.
        received_cpus: f64,
    },
    /// A CPU is idle while jobs are queued.
    CpuIdle,
    /// Jobs are queued, and for some time no worker had to wait for a CPU.
    Quiet,
    /// The process gets less than others that wish for as much.
    Unfair {
        /// The CPUs that it got.
        received_cpus: f64,
        /// What would be fair.
        fair_cpus: f64,
    },
    /// The CPU budget is another one.
    Budget {
        /// The number of CPUs.
        cpus: f64,
    },
    /// What the registry's members divide.
    Registry {
        /// The process's share, in CPUs.
        share_cpus: f64,
    },
    /// The number of make's tokens that are to be had.
    Tokens,
    /// The paper's formula.
    Share {
        /// Of all busy time, so much was the process's.
        own: f64,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Waited { waiting, received_cpus } => {
                write!(
                    f,
                    "workers waited for a CPU {:.0} % of the time and got {received_cpus:.2} CPUs",
                    waiting * 100.0
                )
            }
            Why::CpuIdle => f.write_str("a CPU is idle while jobs are queued"),
            Why::Quiet => f.write_str("jobs are queued and no worker waits for a CPU"),
            Why::Unfair { received_cpus, fair_cpus } => {
                write!(f, "others take more: {received_cpus:.2} CPUs of {fair_cpus:.2} that would be fair")
            }
            Why::Budget { cpus } => write!(f, "the CPU budget is {cpus:.2} CPUs"),
            Why::Registry { share_cpus } => {
                write!(f, "the share among the registry's members is {share_cpus:.2} CPUs")
            }
            Why::Tokens => f.write_str("make's jobserver allows so many"),
            Why::Share { own } => write!(f, "{:.0} % of all busy time is the process's", own * 100.0),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}: {}", self.from, self.to, self.why)
    }
}
