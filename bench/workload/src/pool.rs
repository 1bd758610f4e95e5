//! `manx bench pool`: pools of threads beside each other and beside neighbours, after Jeffery,
//! Jensen and Mortier's "Reducing Tail Latencies Through Environment- and Neighbour-aware Thread
//! Management", and beyond it.
//!
//! Every measured pool is in a process of its own, which computes `fib(30)` for requests of an open
//! loop. All processes of a run begin at one signal. Queue, service and total latency are kept as
//! whole histograms; a percentile is always shown with its maximum.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`kind`], [`executor`] | the pools that are compared, and how each gets a job |
//! | [`work`], [`serve`], [`rest`] | the computation; the open loop; bursts, idleness and jobs that do nothing |
//! | [`spec`], [`process`], [`leader`] | the task and the outcome of a process; a process; a crowd of processes |
//! | [`usage`], [`group`], [`go`] | CPU time by thread; control groups; the same work in Go |
//! | [`variant`], [`sample`] | a version of a case and its run; figures |
//! | `alone`, `quota`, `together`, `at_rest`, [`part`] | the parts of the experiment |
//! | `plan`, `cases` | how a case is run; the names of all |
//! | `conclude`, `judge`, `draw` | tables, targets, pictures |

mod alone;
mod at_rest;
mod cases;
mod conclude;
mod draw;
pub mod executor;
pub mod go;
pub mod group;
mod judge;
pub mod kind;
pub mod leader;
pub mod part;
mod plan;
pub mod process;
mod quota;
pub mod rest;
pub mod sample;
pub mod serve;
pub mod spec;
mod together;
pub mod usage;
pub mod variant;
pub mod work;

pub use conclude::conclude;
pub use draw::draw;
pub use kind::Kind;
pub use part::Part;

use crate::error::Error;
use crate::harness::Bench;
use group::Hierarchy;
use plan::Plan;
use std::path::PathBuf;
use std::time::Duration;
use variant::Stage;

/// The longest time for which the machine's capacity is measured.
const CAPACITY: Duration = Duration::from_secs(1);
/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// Which kinds of pools
    pub kinds: Vec<Kind>,
    /// A smoke check
    pub quick: bool,
    /// The time of a run
    pub time: Duration,
    /// Requests come at random, as often, instead of at equal distances
    pub poisson: bool,
    /// A session for each process
    pub sessions: bool,
    /// The command that starts programs
    pub manx: PathBuf,
    /// This command, which the processes are
    pub own: PathBuf,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a process that failed.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus().len();
    let capacity = work::capacity(cpus, (setup.time / 5).min(CAPACITY));
    let hierarchy = Hierarchy::find(quota::largest(cpus));
    let Setup { parts, kinds, quick, time, poisson, sessions, manx, own } = setup;
    let stage = Stage { own, hierarchy, sessions, cpus };
    let plan = Plan { kinds, quick, time, poisson, manx, stage, capacity };
    plan.notes(bench);
    Part::measure(&parts, &plan, bench)
}
