//! `manx bench range`: range locks side by side, after Nguyen's thesis "Concurrent range locking"
//! (section 5.3), and beyond it.
//!
//! Threads lock ranges of bytes of one region, write or read what they hold, and unlock it. What is
//! asked for is drawn before anything is measured and the same for every competitor ([`request`]).
//! Latencies are those of acquisitions; where reading the clock would be most of what is measured
//! they come from runs of their own (`Timing`). `--check` measures nothing: every word of the
//! region says which holders are in it, and each word that two holders had at once is counted
//! (`region`).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`competitor`] | the competitors |
//! | [`request`], `region` | what threads ask for, and the memory in which that lies |
//! | [`run`], `worker` | a run, here or in a process of its own; what its threads do |
//! | `disjoint`, `strings`, `overlapping`, `memory` | the parts of the experiment |
//! | `grid`, `cell`, `standing` | throughput over threads, holds, overlap and access: its cells, and how locks stand in one |
//! | `interfaces` | owners and tasks |
//! | [`blob`], [`mod@file`] | large objects in an area that all share; writes to one file |
//! | [`counters`] | cycles, instructions and misses, where they are counted |
//! | [`rocksdb`] | RocksDB's lock manager and its tree of ranges, compiled and loaded at run time |
//! | `plan`, `variant`, `case` | how a case is measured; its versions and their figures; its name |
//! | `conclude`, `judge` | tables and pictures; targets |

pub mod blob;
pub(crate) mod case;
mod cell;
pub mod competitor;
mod conclude;
pub mod counters;
mod disjoint;
pub mod file;
mod grid;
mod interfaces;
mod judge;
mod memory;
mod overlapping;
mod plan;
mod region;
pub mod request;
pub mod rocksdb;
pub mod run;
mod standing;
mod strings;
mod variant;
mod worker;

pub use conclude::{conclude, draw};
pub use grid::heat;
pub use plan::Part;
pub use plan::{RANGES, RANGES_QUICK, Setup, THREADS};
pub use request::THREADS_MAX;

use crate::engine::compiler::Compiler;
use crate::error::Error;
use crate::harness::Bench;
use plan::Plan;
use report::figure::three_digits;

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], a CPU that refuses a thread, or a lock that was caught.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    platform::clock::init();
    for (name, load) in rocksdb::COMPETITORS {
        if let Err(missing) = Compiler::from_environment().and_then(|compiler| load(&compiler)) {
            let missing = missing.to_string().replace('\n', "; ");
            bench.note(format!("{name} is left out: {missing}"));
        }
    }
    let plan = Plan { setup };
    if plan.setup.check {
        bench.note("checked: every word of the region is entered and left by who holds it; nothing is timed, and no target judged");
    } else {
        bench.note(format!(
            "latencies are of acquisitions: from a run of their own, a quarter as long, where ranges are held \
             shortly; from the run that counts where they are held for 64 writes, and in `widths`. Reading the clock costs {} ns, once for \
             each latency",
            three_digits(run::clock_ns())
        ));
    }
    bench.note("threads have a CPU each where there are as many CPUs; otherwise the kernel places them");
    bench.note("range-lock can only be tried: its waiters yield and try again. range-mutex parks. Neither has shared ranges");
    Part::measure(&plan.setup.parts, &plan, bench)?;
    plan.caught(bench)
}
