//! `manx bench txn`: transactions, after Andreoli and Cucinotta, "Inducing Huge Tail Latency on a
//! MongoDB deployment", and beyond.
//!
//! Each run is a process of its own, with a session and so an autogroup of its own: Manx's store in
//! this command ([`drive`](mod@drive)), other engines in programs of their own (`engines/ycsb*`).
//! One driver in C draws, times and checks for all (`engines/ycsb.h`), and prints its results in
//! one form ([`crate::engine::Output`]). A run that lost an update is an error and has no figure.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`records`] | how the driver draws records, and what a value has room for |
//! | [`arguments`], [`drive`](mod@drive) | the arguments of a measured process; our stores as the driver calls them |
//! | [`subject`], [`store`] | the interface of a measured store, and Manx's store behind it |
//! | [`reads`] | the cost of a read-only transaction |
//! | `plan`, [`peers`], [`part`], `cases` | how a case is measured; what is measured; the parts; names |
//! | `allocation`, `timeline`, `ycsb`, `snapshot`, `durable` | the parts |
//! | `conclude`, `judge`, `draw` | tables, targets, pictures |

mod allocation;
pub mod arguments;
pub mod cases;
mod conclude;
mod draw;
pub mod drive;
mod durable;
mod judge;
pub mod part;
pub mod peers;
mod plan;
pub mod reads;
pub mod records;
mod snapshot;
pub mod store;
pub mod subject;
mod timeline;
mod ycsb;

pub use conclude::conclude;
pub use draw::draw;
pub use part::Part;
pub use plan::{Setup, THREADS};
pub use ycsb::THREADS as YCSB_THREADS;

use crate::error::Error;
use crate::harness::Bench;
use crate::machine::stay_on_all;
use arguments::{Arguments, What};
use peers::Peers;
use plan::Plan;

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// The first error of a run.
pub fn measure(setup: Setup, bench: &mut Bench) -> Result<(), Error> {
    let wants = |parts: &[Part]| parts.iter().any(|part| setup.parts.contains(part));
    let mut peers = Peers::default();
    if wants(&[Part::Allocation, Part::Timeline, Part::Ycsb]) {
        peers.wiredtiger(&setup.compiler, &setup.libraries, bench)?;
    }
    let boosted = wants(&[Part::Allocation, Part::Timeline])
        || wants(&[Part::Ycsb]) && setup.ycsb_threads.iter().any(|&threads| setup.boosts(threads));
    if peers.wiredtiger.is_some() && boosted {
        peers.guard(&setup.manx, bench)?;
    }
    if wants(&[Part::Ycsb]) {
        peers.others(&setup.compiler, bench)?;
    }
    let drawn = [Part::Allocation, Part::Timeline, Part::Ycsb, Part::Durable];
    let values = wants(&drawn).then(|| format!("; values of {} bytes", setup.value_bytes));
    let values = values.unwrap_or_default();
    bench.note(format!("CPUs {}; a closed loop with service latencies{values}", setup.cpus));
    if boosted {
        crate::boosted::describe(bench);
    }
    let plan = Plan { setup, peers };
    Part::measure(&plan.setup.parts, &plan, bench)
}

/// Runs the measured process, and returns what it prints.
///
/// # Errors
/// An argument that is not understood, or a failure.
pub fn run_child(arguments: &[String]) -> Result<String, Error> {
    let arguments = Arguments::parse(arguments)
        .map_err(|what| Error::request(what, "`manx bench txn` starts such processes itself"))?;
    platform::clock::init();
    if !arguments.cpus.is_empty() {
        stay_on_all(&arguments.cpus).map_err(Error::failed)?;
    }
    match arguments.what {
        What::Store => Ok(drive::drive(&store::Manx::in_memory(arguments.way), &arguments.driver)),
        What::Reads => reads::measure(&arguments),
        What::Durable | What::Component => durable::measure(&arguments),
    }
    .map_err(Error::failed)
}
