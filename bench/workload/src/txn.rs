//! `manx bench txn`: transactions, after Andreoli and Cucinotta, "Inducing Huge Tail Latency on a
//! MongoDB deployment", and beyond.
//!
//! Each run is a process of its own, with a session and so an autogroup of its own: Manx's store in
//! this command ([`drive`](mod@drive)), other engines in programs of their own (`engines/ycsb*`).
//! One driver in C draws, times and checks for all (`engines/ycsb.h`), and says so in one form
//! ([`crate::engine::Output`]). A run that lost an update is an error and no figure.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`records`] | how the driver draws records, and what a value has room for |
//! | [`told`], [`drive`](mod@drive) | what a measured process is told; our stores as the driver calls them |
//! | [`subject`], [`client`] | what is measured, and Manx's store as that |
//! | [`remote`], [`resp`], `serving` | a server as that, by which protocol, and while it runs |
//! | [`reads`] | what a transaction that only reads costs |
//! | [`peers`], [`part`], `cases` | what is measured; the parts; names |
//! | `allocation`, `timeline`, `ycsb`, `snapshot`, `durable`, `server`, `served` | the parts |
//! | `conclude`, `judge`, `draw` | tables, targets, pictures |

mod allocation;
pub mod cases;
pub mod client;
mod conclude;
mod draw;
pub mod drive;
mod durable;
mod judge;
pub mod part;
pub mod peers;
pub mod reads;
pub mod records;
pub mod remote;
pub mod resp;
mod served;
mod server;
mod serving;
mod snapshot;
pub mod subject;
mod timeline;
pub mod told;
mod ycsb;

pub use conclude::conclude;
pub use draw::draw;
pub use part::Part;
pub use served::CONNECTIONS;
pub use ycsb::THREADS as YCSB_THREADS;

use crate::child;
use crate::engine::{Compiler, Load};
use crate::error::Error;
use crate::harness::{Bench, Case};
use crate::inversion::LOWERED;
use crate::machine::stay_on_all;
use peers::{Peers, Variant};
use records::Kind;
use report::Report;
use std::path::PathBuf;
use told::{Told, What};

/// The mean think time of the paper's workload, which stands for the network.
const THINK_US: f64 = 300.0;
/// How many threads are boosted, as in the paper.
const BOOST: usize = 4;
/// Threads of the update workload, unless something else is asked for: as in the paper's figure 4.
pub const THREADS: [usize; 4] = [8, 20, 40, 80];

/// Which WiredTiger is measured.
#[derive(Clone, Debug, Default)]
pub struct Libraries {
    /// Another `libwiredtiger.so` than the machine's own
    pub library: Option<PathBuf>,
    /// A library whose source was repaired
    pub fixed: Option<PathBuf>,
    /// The folder of the header that belongs to both
    pub include: Option<PathBuf>,
}

/// What the experiment needs to know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which parts to measure
    pub parts: Vec<Part>,
    /// What compiles the drivers
    pub compiler: Compiler,
    /// Which WiredTiger
    pub libraries: Libraries,
    /// The command that starts programs and the server
    pub manx: PathBuf,
    /// This command, which some measured processes are
    pub own: PathBuf,
    /// A smoke check
    pub quick: bool,
    /// Measured time of a run, in seconds
    pub seconds: f64,
    /// Threads of the update workload
    pub threads: Vec<usize>,
    /// Threads of YCSB's workloads
    pub ycsb_threads: Vec<usize>,
    /// Connections to a server
    pub connections: Vec<usize>,
    /// Workloads of YCSB, by their letters
    pub workloads: Vec<String>,
    /// How keys are drawn, if not as a workload says
    pub keys: Option<Kind>,
    /// The size of a value
    pub value_bytes: usize,
    /// The CPUs to run on, as a list
    pub cpus: String,
}

impl Setup {
    /// Whether YCSB's workloads are also run with some of `threads` threads boosted: they wait for
    /// a CPU then.
    fn boosts(&self, threads: usize) -> bool {
        !self.quick && threads > self.cpus.split(',').count()
    }
}

/// What the runs of all parts have in common.
struct Plan {
    setup: Setup,
    peers: Peers,
}

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
    bench.note(format!(
        "CPUs {}; a closed loop with service latencies; values of {} bytes",
        setup.cpus, setup.value_bytes
    ));
    if boosted {
        if let Err(why) = child::autogroup() {
            bench.note(format!(
                "measured programs have no scheduling group of their own: {why}; niceness then also weighs against other programs"
            ));
        }
        if !child::may_boost() {
            bench.note(LOWERED);
        }
    }
    let plan = Plan { setup, peers };
    Part::measure(&plan.setup.parts, &plan, bench)
}

impl Plan {
    fn load(&self, threads: usize, think_us: f64, workload: &str) -> Load {
        let setup = &self.setup;
        let mut more = vec![format!("--workload={workload}"), format!("--value-bytes={}", setup.value_bytes)];
        if setup.quick {
            more.push("--records=10000".into());
        }
        let load = Load::new(threads, setup.seconds, (setup.seconds / 5.0).min(0.5), &setup.cpus);
        Load { think_us, lowered: !child::may_boost(), more, ..load }
    }

    /// The same with keys drawn as the user wants them.
    fn drawn(&self, mut load: Load) -> Load {
        load.more.extend(self.setup.keys.map(|kind| format!("--keys={}", kind.name())));
        load
    }

    fn compare(&self, bench: &mut Bench, case: &str, load: &Load, variants: &[Variant]) -> Result<(), Error> {
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        let watch = |report: &Report| crate::verdict::watched(report, case, judge::figure);
        let case = Case { name: case, variants: &names, expected: load.expected() };
        bench.compare(case, watch, |at, round| {
            // The same seed for all variants of a round, another one for each round.
            variants[at].run(&self.setup.manx, &Load { seed: round as u64 + 1, ..load.clone() })
        })
    }
}

/// Is a measured process, and returns what it prints.
///
/// # Errors
/// What it cannot understand, or what went wrong.
pub fn run_child(arguments: &[String]) -> Result<String, Error> {
    let told = Told::parse(arguments)
        .map_err(|what| Error::request(what, "`manx bench txn` starts such processes itself"))?;
    let failed = |what| Error::Failed { what, stderr: String::new() };
    platform::clock::init();
    if !told.cpus.is_empty() {
        stay_on_all(&told.cpus).map_err(failed)?;
    }
    match told.what {
        What::Store => Ok(drive::drive(&client::Manx::in_memory(told.way), &told.driver)),
        What::Reads => reads::measure(&told),
        What::Durable | What::Component => durable::measure(&told),
        What::Remote => {
            let port = told.port.ok_or_else(|| "--port is missing: where a server listens".to_owned());
            port.and_then(remote::Remote::connect).map(|server| drive::drive(&server, &told.driver))
        }
    }
    .map_err(failed)
}
