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
//! | [`executor`] | how each of the pools that are compared gets a job |
//! | [`work`], [`serve`], [`rest`] | the computation; the open loop; bursts, idleness and jobs that do nothing |
//! | [`spec`], [`process`], [`leader`] | the kind of a pool, the task and the outcome of a process; a process; a crowd of processes |
//! | [`usage`], [`go`] | CPU time by thread; the same work in Go |
//! | [`part`] | the parts of the experiment |
//! | `plan`, `cases` | how a case is run, its versions and their figures; the names of all |
//! | `conclude` | tables, pictures and targets |

pub(crate) mod cases;
mod conclude;
pub mod executor;
pub mod go;
pub mod leader;
pub mod part;
mod plan;
pub mod process;
pub mod rest;
pub mod serve;
pub mod spec;
pub mod usage;
pub mod work;

pub(crate) use conclude::tables;
pub use conclude::{conclude, draw};
pub use part::Part;
pub use plan::Setup;
pub use spec::Kind;

use crate::error::Error;
use crate::group::Hierarchy;
use crate::harness::Bench;
use plan::{Plan, Stage};
use std::time::Duration;

/// The longest time for which the machine's capacity is measured.
const CAPACITY: Duration = Duration::from_secs(1);
/// Runs every case of these parts; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or a process that failed.
pub fn measure(parts: &[Part], setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus().len();
    let capacity = work::capacity(cpus, (setup.time / 5).min(CAPACITY));
    let hierarchy = Hierarchy::find(part::largest(cpus));
    let stage = Stage { own: setup.own.clone(), hierarchy, sessions: setup.sessions, cpus };
    let plan = Plan { setup, stage, capacity };
    plan.notes(bench);
    Part::measure(parts, &plan, bench)
}
