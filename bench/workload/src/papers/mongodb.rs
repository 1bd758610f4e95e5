//! Paper 000 from end to end: YCSB's clients over a network, a server with a thread for each
//! connection, and WiredTiger beneath it, whose snapshots busy-wait.
//!
//! | case | compares | of the paper |
//! | --- | --- | --- |
//! | the headline | unrestricted, and restricted with threads boosted in the middle third | figures 2a, 2b, 3a, 3b, and +2168 % and +7 % |
//! | a case for each number of clients | restricted and boosted all the time | figure 4 |
//! | the repairs | the same with each repair, in WiredTiger and in Manx's store | section II-B, and the conclusion's mutable locks |
//!
//! The paper's parts, and their counterparts:
//!
//! | the paper | here |
//! | --- | --- |
//! | YCSB on a machine of its own, update-only load | go-ycsb over MongoDB's driver, on CPUs of its own where there are enough (`bench/ycsb`) |
//! | MongoDB 6.0 on WiredTiger 10.0.2 | `bench/mongo` on WiredTiger 11.3.1 of PyPI, as it is and with the paper's repair |
//! | 112 CPUs; sessions restricted to 10 | all CPUs; restricted to `--cpus` |
//! | 40 clients, 6 million updates, three times | `--clients`, a time, round after round |
//! | four sessions at niceness -20, by `renice` | the same, by thread |
//!
//! Invariants:
//! 1. A run has a server and a database of its own. The database lies in a temporary folder.
//! 2. Server and client are sessions of their own, so that the niceness of the boosted threads
//!    weighs against the server's other threads only (autogroup).
//! 3. Threads are boosted from the outside, as in the paper: the server knows nothing of it.
//! 4. An update that fails, or a server that does not end by SIGTERM, is a failure and no figure.

mod cases;
mod client;
mod conclude;
mod place;
mod server;

pub use conclude::{conclude, draw};
pub use place::Place;

use crate::error::Error;
use crate::harness::{Bench, Sample};
use crate::turns::{Entrant, Turns};
use crate::{boosted, verdict};
use cases::{GUARDED, ORIGINAL, REPAIRED, UNRESTRICTED, boosted_case, headline_case, repairs_case};
use client::{Client, Said};
use place::Binary;
use report::{Compared, Report};
use server::Server;
use std::time::Duration;

/// The time before a run is measured.
const WARM_UP_S: (f64, f64) = (1.0, 0.3);
/// The time that a server needs to start, to be filled, and to end.
const STARTED: Duration = Duration::from_secs(2);
/// The rounds of figure 4 and of the repairs.
const SWEEP_ROUNDS: usize = 5;

/// The settings of the experiment.
#[derive(Debug)]
pub struct Setup {
    /// The programs
    pub place: Place,
    /// A smoke check
    pub quick: bool,
    /// The CPUs of a restricted server
    pub cpus: Vec<usize>,
    /// The CPUs of the clients
    pub client_cpus: Vec<usize>,
    /// The clients of the headline, and of the repairs
    pub headline_clients: usize,
    /// The clients of figure 4
    pub clients: Vec<usize>,
    /// The threads that are boosted
    pub boosted: usize,
    /// The mean of the think times
    pub think_us: f64,
    /// The records
    pub records: u64,
    /// The time of a run of the headline in seconds; the other runs take a third of it
    pub time_s: f64,
}

/// When threads are boosted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Boost {
    Never,
    MiddleThird,
    Always,
}

/// A version of the server.
#[derive(Clone, Copy, Debug)]
struct Version {
    name: &'static str,
    binary: Binary,
    is_restricted: bool,
    boost: Boost,
}

/// Runs all cases; the results are in `bench.report`.
///
/// # Errors
/// The first failure of a server that has to work, a missing program, or the user interrupts.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    setup.place.check()?;
    setup.place.notes().into_iter().for_each(|note| bench.note(note));
    bench.note(setup.words());
    boosted::describe(bench);
    if !crate::child::may_boost() {
        return Err(Error::missing("a niceness below 0 needs root or CAP_SYS_NICE", "run it as root"));
    }
    let mut failures = Vec::new();
    setup.headline(bench, &mut failures)?;
    for &clients in &setup.clients {
        let versions =
            [ORIGINAL, REPAIRED, GUARDED].map(|name| version(name, Binary::of(name), Boost::Always));
        setup.take(bench, &mut failures, &boosted_case(clients), clients, &versions, Some(SWEEP_ROUNDS))?;
    }
    setup.repairs(bench, &mut failures)?;
    bench.complete();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Error::Failed { what: "servers failed".into(), stderr: failures.join("\n") }),
    }
}

/// A restricted version.
fn version(name: &'static str, binary: Binary, boost: Boost) -> Version {
    Version { name, binary, is_restricted: true, boost }
}

impl Setup {
    fn words(&self) -> String {
        let list = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        format!(
            "a restricted server has CPUs {}, an unrestricted one all {}; the clients have CPUs {}; think time {} µs; {} records",
            list(&self.cpus),
            crate::machine::cpus().len(),
            list(&self.client_cpus),
            self.think_us,
            self.records
        )
    }

    /// Figures 2 and 3.
    fn headline(&self, bench: &mut Bench, failures: &mut Vec<String>) -> Result<(), Error> {
        let mut versions = Vec::new();
        for (name, unrestricted) in [ORIGINAL, REPAIRED, GUARDED].into_iter().zip(UNRESTRICTED) {
            let restricted = version(name, Binary::of(name), Boost::MiddleThird);
            versions.push(restricted);
            versions.push(Version {
                name: unrestricted,
                is_restricted: false,
                boost: Boost::Never,
                ..restricted
            });
        }
        let clients = self.headline_clients;
        self.take(bench, failures, &headline_case(clients), clients, &versions, None)
    }

    /// Each repair at the real loop, and in Manx's store.
    fn repairs(&self, bench: &mut Bench, failures: &mut Vec<String>) -> Result<(), Error> {
        let versions: Vec<Version> = Binary::REPAIRS
            .into_iter()
            .filter(|(_, binary)| self.place.has(*binary))
            .map(|(name, binary)| version(name, binary, Boost::Always))
            .collect();
        let clients = self.headline_clients;
        self.take(bench, failures, &repairs_case(clients), clients, &versions, Some(SWEEP_ROUNDS))
    }

    /// The versions in turn, for some rounds, or until the ratios of the targets are known.
    fn take(
        &self,
        bench: &mut Bench,
        failures: &mut Vec<String>,
        case: &str,
        clients: usize,
        versions: &[Version],
        rounds: Option<usize>,
    ) -> Result<(), Error> {
        let entrant = |version: &Version| Entrant { name: version.name, is_plain: false, is_ours: true };
        let entrants: Vec<Entrant> = versions.iter().map(entrant).collect();
        let warm_up_s = if self.quick { WARM_UP_S.1 } else { WARM_UP_S.0 };
        let seconds = if rounds.is_none() { self.time_s } else { self.time_s / 3.0 };
        let expected = STARTED + Duration::from_secs_f64(seconds + warm_up_s);
        let rounds = if self.quick { Some(1) } else { rounds };
        let turns = Turns { case, entrants: &entrants, rounds, expected };
        let watched = |report: &Report| -> Vec<Compared> {
            verdict::watched(report, case, |report, id| conclude::figure(report, id).ok())
        };
        turns.take(bench, failures, watched, |at, _| self.run(&versions[at], clients, seconds, warm_up_s))
    }

    /// One run of one version.
    fn run(&self, version: &Version, clients: usize, seconds: f64, warm_up_s: f64) -> Result<Sample, Error> {
        let all = crate::machine::cpus();
        let cpus = if version.is_restricted { &self.cpus } else { &all };
        let server = Server::start(&self.place, version.binary, cpus)?;
        let client =
            Client { place: &self.place, cpus: &self.client_cpus, url: server.url(), records: self.records };
        client.load()?;
        let third = Duration::from_secs_f64(seconds / 3.0);
        let said = client.run(clients, seconds, warm_up_s, self.think_us, || match version.boost {
            Boost::Never => Ok(()),
            Boost::Always => server.boost(self.boosted).map(drop),
            Boost::MiddleThird => {
                std::thread::sleep(third);
                let boosted = server.boost(self.boosted)?;
                std::thread::sleep(third);
                server.restore(&boosted)
            }
        })?;
        server.stop()?;
        Ok(sample(&said))
    }
}

/// The figures of a run.
fn sample(said: &Said) -> Sample {
    let mut sample = Sample::of([
        ("throughput_per_s", said.throughput_per_s),
        ("mean_ns", said.mean_ns),
        ("p50_ns", said.p50_ns as f64),
        ("p99_ns", said.p99_ns as f64),
        ("p999_ns", said.p999_ns as f64),
        ("max_ns", said.max_ns as f64),
        ("slowest_of_mean", said.slowest_of_mean),
    ]);
    // The seconds in the middle third.
    let third = said.windows.len() / 3;
    let middle = &said.windows[third..said.windows.len() - third];
    sample.add("window_max_ns", middle.iter().map(|one| one.max_ns).max().unwrap_or(0) as f64);
    let tails: Vec<f64> = middle.iter().map(|one| one.p999_ns as f64).collect();
    sample.add("window_p999_ns", report::median(&tails));
    sample.with(said)
}
