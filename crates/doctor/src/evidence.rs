//! What was seen of a process while it was watched. No judgement: that is `causes`.
//!
//! | file | what |
//! | --- | --- |
//! | `thread.rs` | run time, waits for a CPU, states and priorities of threads |
//! | `group.rs` | the quotas of the process's control groups |
//! | `machine.rs` | the rest of the machine |
//! | `others.rs` | whether other processes wait in loops |
//! | `sampler.rs` | at which instructions threads are when they run |
//! | `modules.rs`, `loops.rs`, `code.rs` | what these instructions do: file, function, a loop that waits |
//! | `faults.rs` | functions in which threads wait and have page faults |
//! | `futex.rs`, `locks.rs`, `memory.rs` | the locks that threads wait for, and their holders |
//! | `waits.rs` | how long each wait for a lock lasts, and in which function |
//! | `timeline.rs` | what each thread did at each look |
//! | `under_manx.rs` | what Manx does there already |
//! | `unseen.rs` | what could not be seen, and why |

pub mod code;
pub mod faults;
pub mod futex;
pub mod group;
pub mod locks;
pub mod loops;
pub mod machine;
pub mod memory;
pub mod modules;
pub mod others;
pub mod sampler;
pub mod thread;
pub mod timeline;
pub mod under_manx;
pub mod unseen;
pub mod waits;

use code::Place;
use faults::FaultSite;
use group::GroupEvidence;
use locks::LockEvidence;
use machine::MachineEvidence;
use serde::Serialize;
use thread::ThreadEvidence;
use timeline::Timeline;
use under_manx::UnderManx;
use unseen::Unseen;

/// The shortest time that allows a verdict.
const SPAN_MIN_NS: u64 = 20_000_000;

/// What was seen of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Evidence {
    /// The process
    pub pid: i32,
    /// Its name
    pub name: String,
    /// Its command line
    pub command: Vec<String>,
    /// For how long it was watched, in ns
    pub span_ns: u64,
    /// How often its threads were looked at
    pub looks: u32,
    /// Whether it ended meanwhile
    pub ended: bool,
    /// How much of a CPU the doctor itself used, for all that it watched
    pub own_cpus: f64,
    /// How many CPUs the process may use by all limits
    pub budget: f64,
    /// Which limit decides, in words
    pub budget_why: String,
    /// How many CPUs its threads may run on: the budget without quotas
    pub cpus: f64,
    /// Its threads, those that ran or waited most first
    pub threads: Vec<ThreadEvidence>,
    /// Its control groups that have a quota
    pub groups: Vec<GroupEvidence>,
    /// The rest of the machine
    pub machine: MachineEvidence,
    /// Where threads were seen running
    pub places: Vec<Place>,
    /// The functions in which they wait and have page faults
    pub fault_sites: Vec<FaultSite>,
    /// The locks that they waited for
    pub locks: Vec<LockEvidence>,
    /// What the threads did at each look
    pub timeline: Timeline,
    /// The files with code in the process
    pub modules: Vec<String>,
    /// What Manx does there, if it runs under `manx run`
    pub manx: Option<UnderManx>,
    /// What could not be seen
    pub unseen: Vec<Unseen>,
}

impl Evidence {
    /// How many threads ran on average.
    ///
    /// ```
    /// use doctor::evidence::{Evidence, thread::ThreadEvidence};
    /// let thread = ThreadEvidence { run_ns: 500, wait_ns: 250, ..ThreadEvidence::default() };
    /// let evidence = Evidence { span_ns: 1_000, threads: vec![thread], ..Evidence::default() };
    /// assert_eq!((evidence.running(), evidence.waiting()), (0.5, 0.25));
    /// ```
    pub fn running(&self) -> f64 {
        self.per_time(self.threads.iter().map(|thread| thread.run_ns).sum())
    }

    /// How many threads wished to run and had no CPU, on average.
    pub fn waiting(&self) -> f64 {
        self.per_time(self.threads.iter().map(|thread| thread.wait_ns).sum())
    }

    /// A sum of times of threads as a number of threads.
    pub fn per_time(&self, ns: u64) -> f64 {
        ns as f64 / self.span_ns.max(1) as f64
    }

    /// Whether it was watched for too short a time to judge: it ended at once, and rates over some
    /// milliseconds are noise.
    pub fn is_too_short(&self) -> bool {
        self.span_ns < SPAN_MIN_NS
    }

    /// Whether the process runs under `manx run`: the preload library is in it.
    pub fn is_under_manx(&self) -> bool {
        self.manx.is_some()
    }

    /// How many samples there are, and how many of them lie in loops that wait.
    pub fn in_loops(&self) -> (u32, u32) {
        (self.samples(), self.threads.iter().map(|thread| thread.waiting_samples).sum())
    }

    /// How many samples there are.
    pub fn samples(&self) -> u32 {
        self.threads.iter().map(|thread| thread.samples).sum()
    }
}
