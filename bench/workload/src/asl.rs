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
//! | [`cores`] | which CPUs are big |
//! | `plan`, `cases` | how a case is run, its figures, and the best static window; the names of all |
//! | `part` | the parts of the experiment |
//! | `competing` | the part with several kinds of epochs, one within another |
//! | `conclude`, `judge`, `draw` | tables, targets, pictures |
//! | `paper` | the figures that the paper's text names, beside those measured |
//! | `printed` | the paper's own algorithms beside ours |

mod cases;
mod competing;
mod conclude;
pub mod cores;
mod draw;
mod judge;
mod paper;
mod part;
mod plan;
mod printed;

pub use conclude::conclude;
pub use draw::draw;
pub use part::Part;

use crate::error::Error;
use crate::harness::Bench;
use crate::place::Place;
use cases::{HOLD_NS, LINES, LOCKS, NOPS, SECTIONS, THINK_NS};
use contention::length::Length;
use contention::run::{Burn, Run, Window, Work};
use cores::Cores;
use manx::cpu::Classes;
use plan::Plan;
use std::time::Duration;

/// How many times as long a little thread takes, unless something else is asked for.
pub const DILATION: f64 = 3.75;
/// Little epochs of a run with a target, at least.
const LITTLE_EPOCHS: u64 = 20_000;
/// The same on a simulated machine, which no neighbour disturbs.
const LITTLE_EPOCHS_SIMULATED: u64 = 2_000;

/// The settings of the experiment.
#[derive(Debug)]
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
    /// Where the runs are made
    pub place: Place,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], fewer than two CPUs, or a lock that does not exclude.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let (cores, burn) = cores(&setup, bench)?;
    let dilation = setup.dilation.unwrap_or(DILATION);
    let (nops, think_ns) = if matches!(burn, Burn::Time) { (0, THINK_NS) } else { (NOPS, 0) };
    bench.note("slo: each of a thread's epochs is begun and ended; asl max: none is, so little threads stand by for 100 ms");
    if !setup.pinned {
        bench.note("unpinned: threads are not bound to CPUs, and each is big or little wherever it runs");
    }
    let run = Run {
        // On this machine two threads; on a simulated one all CPUs have one, as in the paper.
        threads: if setup.place.machine().is_some() { cores.all().len() } else { 2 },
        first_big: setup.place.machine().map(|_| cores.big.len()),
        cpus: match setup.place.machine() {
            Some(_) => cores.all(),
            None => vec![cores.big[0], cores.little[0]],
        },
        pinned: setup.pinned,
        burn,
        dilation,
        work: Work { sections: SECTIONS, locks: LOCKS, lines: LINES, hold_ns: HOLD_NS, nops },
        think_ns,
        length: Length::Times(1),
        window: Window::Fixed(0),
        time: setup.time,
        little_epochs: match setup.place.machine() {
            _ if setup.quick => 0,
            Some(_) => LITTLE_EPOCHS_SIMULATED,
            None => LITTLE_EPOCHS,
        },
        limit: Duration::ZERO,
        is_interrupted: crate::interrupt::requested,
        slices: None,
    };
    let plan = Plan { quick: setup.quick, run, cores, place: setup.place };
    Part::measure(&setup.parts, &plan, bench)
}

/// Which CPUs are big and which are little, and how threads spend time on them.
fn cores(setup: &Setup, bench: &mut Bench) -> Result<(Cores, Burn), Error> {
    let machine = setup.place.machine();
    let cpus = machine.map_or_else(crate::machine::cpus, |machine| (0..machine.cpus().len()).collect());
    platform::clock::init();
    if cpus.len() < 2 {
        return Err(Error::request("big and little threads need a CPU each", "allow this process two CPUs"));
    }
    let asks = setup.dilation.is_none() && setup.pinned;
    let differ = match machine {
        _ if !asks => None,
        Some(machine) => Cores::simulated(machine),
        None => Cores::real(&cpus, &Classes::of_this_machine()),
    };
    let Some((cores, why)) = differ.and_then(|cores| Some((cores.clone(), cores.differ?))) else {
        let dilation = setup.dilation.unwrap_or(DILATION);
        bench.note(format!(
            "every second thread is little: it takes {dilation} times as long in critical sections and between epochs"
        ));
        return Ok((Cores::emulated(&cpus), Burn::Time));
    };
    bench.note(format!(
        "every second thread is little: it runs on such a core ({why}), and does the same work there"
    ));
    let burn = match machine {
        Some(_) => Burn::Rounds { per_us: contend_sim::burn::ROUNDS_PER_US },
        None => cores::rounds_of(cores.big[0]).map_err(Error::failed)?,
    };
    Ok((cores, burn))
}
