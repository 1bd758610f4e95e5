//! `manx bench asl`: how far the order of a lock can be given up within a target for latency, after
//! Liu and others, "Asymmetry-aware scalable locking" (2022): its micro-benchmarks, and figures 1,
//! 4 and 5.
//!
//! One thread in two is little. Where the machine's cores are alike, little threads do everything
//! [`Setup::dilation`] times as slowly, in the measured program itself ([`cores`]). Targets for
//! latency follow from what the lock in order of arrival (MCS) is measured to do here; the best
//! static window (OPT) is found by halving the interval of windows, before the rounds begin.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`lock`] | the competitors |
//! | [`cores`] | which CPUs are big, and how threads spend time on them |
//! | [`run`], [`length`], [`timeline`] | threads, epochs and how long these are, what is recorded of them |
//! | `plan`, `cases` | how a case is run, and the names of all |
//! | `part`, `contended`, `lengths`, `scaling`, `opt` | the parts of the experiment |
//! | `sample`, `conclude`, `judge`, `draw` | figures, tables, targets, pictures |

mod cases;
mod conclude;
mod contended;
pub mod cores;
mod draw;
mod judge;
pub mod length;
mod lengths;
pub mod lock;
mod opt;
mod part;
mod plan;
pub mod run;
mod sample;
mod scaling;
pub mod timeline;

pub use conclude::conclude;
pub use draw::draw;
pub use part::Part;

use crate::error::Error;
use crate::harness::Bench;
use cases::{HOLD_NS, LINES, LOCKS, SECTIONS, THINK_NS};
use cores::{Burn, Cores};
use length::Length;
use manx::cpu::Classes;
use plan::Plan;
use run::{Run, Window, Work};
use std::time::Duration;

/// How many times as long a little thread takes, unless something else is asked for.
pub const DILATION: f64 = 3.75;
/// Little epochs of a run with a target, at least.
const LITTLE_EPOCHS: u64 = 20_000;

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// A smoke check
    pub quick: bool,
    /// The measured time of a run
    pub time: Duration,
    /// How many times as long a little thread takes; if it is not said, cores differ as the machine
    /// has them, or by [`DILATION`]
    pub dilation: Option<f64>,
    /// Threads stay on their CPUs
    pub pinned: bool,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], fewer than two CPUs, or a lock that does not exclude.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let cpus = crate::machine::cpus();
    platform::clock::init();
    if cpus.len() < 2 {
        return Err(Error::request("big and little threads need a CPU each", "allow this process two CPUs"));
    }
    let real = (setup.dilation.is_none() && setup.pinned).then(Classes::of_this_machine);
    let cores =
        real.and_then(|classes| Cores::real(&cpus, &classes)).unwrap_or_else(|| Cores::emulated(&cpus));
    let dilation = setup.dilation.unwrap_or(DILATION);
    let burn = match &cores.differ {
        Some(why) => {
            bench.note(format!(
                "every second thread is little: it runs on such a core ({why}), and does the same work there"
            ));
            let failed = |what| Error::Failed { what, stderr: String::new() };
            Burn::rounds_of(cores.big[0]).map_err(failed)?
        }
        None => {
            bench.note(format!(
                "every second thread is little: it takes {dilation} times as long in critical sections and between epochs"
            ));
            Burn::Time
        }
    };
    bench.note("slo: each of a thread's epochs is begun and ended; asl max: none is, so little threads stand by for 100 ms");
    if !setup.pinned {
        bench.note("unpinned: threads are not bound to CPUs, and each is big or little wherever it runs");
    }
    let run = Run {
        threads: 2,
        first_big: None,
        cpus: vec![cores.big[0], cores.little[0]],
        pinned: setup.pinned,
        burn,
        dilation,
        work: Work { sections: SECTIONS, locks: LOCKS, lines: LINES, hold_ns: HOLD_NS, nops: false },
        think_ns: THINK_NS,
        length: Length::Times(1),
        window: Window::Fixed(0),
        time: setup.time,
        little_epochs: if setup.quick { 0 } else { LITTLE_EPOCHS },
        limit: Duration::ZERO,
        slices: None,
    };
    let plan = Plan { quick: setup.quick, run, cores };
    Part::measure(&setup.parts, &plan, bench)
}
