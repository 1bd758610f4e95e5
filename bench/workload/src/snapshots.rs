//! `manx bench sim MACHINE snapshots`: paper 000 on its own server, which is simulated: updates of
//! an engine whose snapshots wait for threads that take an id.
//!
//! # What is modelled A thread serves a connection. Its client sends the next update a think time
//! after it has a reply, and the network takes a fixed time. The thread then computes, makes a
//! snapshot, takes an id, computes, and commits. To make a snapshot it looks at the state of every
//! session; while one says that it is taking an id, it waits, because it cannot know whether the id
//! is below its own. That is the protocol of WiredTiger (paper, section II-A), reduced to what
//! waits. Sessions have a cache line each, and the counter of ids has one.
//!
//! # What is left out
//! The engine's other locks, its cache and its journal, the network's own queue, and memory orders.
//!
//! Invariants:
//! 1. A latency is the client's: the network's time, and the time from the arrival of the update to
//!    its end, whenever its thread comes to run.
//! 2. All versions of a case do the same work. They differ in how they wait.

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::named;
use platform_sim::atomic::{AtomicU32, AtomicU64, Ordering};
use platform_sim::chance::Chance;
use platform_sim::machine::Machine;
use platform_sim::{clock, cpu, simulation, thread};
use report::{Compared, Histogram, Report, Sheet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const MS: u64 = 1_000_000;
/// The time before anything is counted.
const FROM_NS: u64 = 20 * MS;
/// The part of an update's computation before it takes an id, in percent.
const BEFORE: u64 = 60;
/// Spins before the first yield, yields before the first sleep, and the length of a sleep, as in
/// WiredTiger's own backoff: 1,000 spins; the time of the paper's fixed sleep is its first one.
const SPINS: u32 = 1_000;
const YIELDS: u32 = 100;
const SLEEP_NS: u64 = 100_000;
const SLEEP_NS_MAX: u64 = 1_000_000;
/// A spin that has lasted for long looks this often: each look is a step of the simulation.
const LOOK_NS: u64 = 3_000;
/// The looks that a spin makes at the usual distance.
const LOOKS: u32 = 200;
/// The boost of the paper.
const NICE: i32 = -20;

named! {
    /// The ways to wait for a session that takes an id.
    pub enum Waits {
        /// Spins, as WiredTiger does
        Spins = "original",
        /// Yields the CPU
        Yields = "yield",
        /// Sleeps for a fixed time
        Sleeps = "sleep",
        /// Spins, then yields, then sleeps: the paper's repair
        Adapts = "repaired",
    }
}

named! {
    /// When threads have the highest priority.
    pub enum Boost {
        /// Never, and all CPUs are the server's
        Unrestricted = "unrestricted",
        /// In the middle third, with few CPUs
        Window = "boosted in the middle third",
        /// Always, with few CPUs
        Always = "boosted",
    }
}

/// A server and its clients.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// The way in which snapshots wait
    pub waits: Waits,
    /// When threads are boosted
    pub boost: Boost,
    /// Connections, each with a thread
    pub clients: u32,
    /// The CPUs of a restricted server
    pub cpus: usize,
    /// Threads that are boosted
    pub boosted: u32,
    /// The network's time of an update and its reply
    pub network_ns: u64,
    /// The mean think time
    pub think_ns: u64,
    /// The mean computation of an update
    pub work_ns: u64,
    /// For how long is counted
    pub time_ns: u64,
}

/// The latencies of all updates, and of those that ended in the middle third.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// All
    pub all: Histogram,
    /// In the middle third
    pub window: Histogram,
}

/// The state that a session shows the others, on a line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Session {
    is_allocating: AtomicU32,
    id: AtomicU64,
}

/// The server while it runs.
struct Running {
    server: Server,
    seed: u64,
    next: AtomicU64,
    sessions: Vec<Session>,
    did: Mutex<Did>,
}

/// Runs a server with its clients.
pub fn run(machine: &Machine, seed: u64, server: Server) -> Did {
    let running = move || {
        let sessions = (0..server.clients).map(|_| Session::default()).collect();
        let running =
            Arc::new(Running { server, seed, next: AtomicU64::new(1), sessions, did: Mutex::default() });
        let one = |number: u32| {
            let running = Arc::clone(&running);
            thread::spawn(move || running.serve(number))
        };
        let all: Vec<_> = (0..server.clients).map(one).collect();
        all.into_iter().for_each(|thread| thread.join().unwrap_or(()));
        let did = running.did.lock().unwrap_or_else(PoisonError::into_inner);
        did.clone()
    };
    simulation::run(machine, seed, running).value
}

impl Running {
    fn serve(&self, number: u32) {
        let Server { boost, cpus, time_ns, network_ns, think_ns, .. } = self.server;
        if boost != Boost::Unrestricted {
            let mut mask = [0; cpu::COUNT_MAX / 64];
            (0..cpus).for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
            assert!(cpu::bind(&mask), "the machine has {cpus} CPUs");
        }
        let mut chance = Chance::new(self.seed << 16 | u64::from(number));
        let mut is_boosted = false;
        let (end_ns, mut did) = (FROM_NS + time_ns, Did::default());
        let third = FROM_NS + time_ns / 3..FROM_NS + 2 * time_ns / 3;
        loop {
            let think = -(1.0 - chance.unit()).ln() * think_ns as f64;
            let arrival_ns = clock::now_ns() + network_ns + think as u64;
            if arrival_ns >= end_ns {
                break;
            }
            thread::sleep_ns(arrival_ns.saturating_sub(clock::now_ns()));
            let is_time = match boost {
                Boost::Unrestricted => false,
                Boost::Window => third.contains(&clock::now_ns()),
                Boost::Always => true,
            };
            if number < self.server.boosted && is_time != is_boosted {
                thread::set_nice(if is_time { NICE } else { 0 });
                is_boosted = is_time;
            }
            self.update(number, &mut chance);
            let now_ns = clock::now_ns();
            if arrival_ns >= FROM_NS {
                let latency_ns = network_ns + (now_ns - arrival_ns);
                did.all.record(latency_ns);
                if third.contains(&now_ns) {
                    did.window.record(latency_ns);
                }
            }
        }
        let mut all = self.did.lock().unwrap_or_else(PoisonError::into_inner);
        all.all.merge(&did.all);
        all.window.merge(&did.window);
    }

    /// A transaction that updates one record.
    fn update(&self, number: u32, chance: &mut Chance) {
        let about = |ns: u64, chance: &mut Chance| cpu::work(ns * 3 / 4 + chance.below(ns / 2 + 1));
        let before_ns = self.server.work_ns * BEFORE / 100;
        about(before_ns, chance);
        for session in &self.sessions {
            self.settle(session);
        }
        let own = &self.sessions[number as usize];
        own.is_allocating.store(1, Ordering::SeqCst);
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        own.id.store(id, Ordering::Release);
        own.is_allocating.store(0, Ordering::Release);
        about(self.server.work_ns - before_ns, chance);
        own.id.store(0, Ordering::Release);
    }

    /// Returns the session's id once it is known.
    fn settle(&self, session: &Session) -> u64 {
        let (mut looks, mut sleep_ns) = (0, SLEEP_NS);
        while session.is_allocating.load(Ordering::Acquire) != 0 {
            looks += 1;
            match self.server.waits {
                Waits::Yields => thread::yield_now(),
                Waits::Sleeps => thread::sleep_ns(SLEEP_NS),
                Waits::Adapts if looks > SPINS + YIELDS => {
                    thread::sleep_ns(sleep_ns);
                    sleep_ns = (2 * sleep_ns).min(SLEEP_NS_MAX);
                }
                Waits::Adapts if looks > SPINS => thread::yield_now(),
                Waits::Spins if looks > LOOKS => cpu::work(LOOK_NS),
                Waits::Spins | Waits::Adapts => cpu::pause(),
            }
        }
        session.id.load(Ordering::Acquire)
    }
}

/// The settings of the experiment.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// Clients of the timeline, and then of each step of figure 4
    pub clients: Vec<u32>,
    /// The CPUs of a restricted server
    pub cpus: usize,
    /// Threads that are boosted
    pub boosted: u32,
    /// The network's time of an update and its reply, in nanoseconds
    pub network_ns: u64,
    /// The mean think time in nanoseconds
    pub think_ns: u64,
    /// The mean computation of an update in nanoseconds
    pub work_ns: u64,
    /// The rounds of each case
    pub rounds: usize,
    /// For how long is counted
    pub time: Duration,
}

fn case(clients: u32, boost: Boost) -> String {
    format!("{clients} clients, {}", boost.name())
}

/// Runs every case; the results are in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or there is no simulated machine, or it has fewer CPUs.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let machine = setup.place.machine().ok_or_else(|| Error::failed("no simulated machine".to_owned()))?;
    let all = machine.cpus().len();
    if setup.cpus > all {
        let what = format!("the machine has {all} CPUs, and a restricted server is to have {}", setup.cpus);
        return Err(Error::request(what, "name fewer with --cpus"));
    }
    let (first, sweep) = setup.clients.split_first().unwrap_or((&40, &[]));
    let mut cases = vec![(*first, Boost::Unrestricted), (*first, Boost::Window)];
    cases.extend(sweep.iter().map(|clients| (*clients, Boost::Always)));
    for (clients, boost) in cases {
        let (case, versions) = (case(clients, boost), Waits::ALL.map(Waits::name));
        let case = Case { name: &case, variants: &versions, expected: setup.time };
        bench.rounds(case, setup.rounds, |at, _| {
            let server = Server {
                waits: Waits::ALL[at],
                boost,
                clients,
                cpus: setup.cpus,
                boosted: setup.boosted.min(clients),
                network_ns: setup.network_ns,
                think_ns: setup.think_ns,
                work_ns: setup.work_ns,
                time_ns: setup.time.as_nanos() as u64,
            };
            let seed = setup.place.next_seed();
            let did = run(machine, seed, server);
            let per_s = did.all.count() as f64 / setup.time.as_secs_f64();
            let mut sample = Sample::of([("throughput_per_s", per_s), ("seed", seed as f64)]);
            sample.add("mean_ns", did.all.summary().mean_ns);
            sample.add_tail("", &did.all);
            sample.add_tail("window_", &did.window);
            Ok(sample.with(&did.all))
        })?;
    }
    Ok(())
}

const TABLE: &str = "
    case = case | snapshots wait by = version | runs [] = rounds | updates = throughput_per_s
    mean = mean_ns | p50 = p50_ns | p99.9 = p999_ns | max = worst max_ns
    window p99.9 = window_p999_ns | window max = worst window_max_ns";
const RISES: &str = "snapshots wait by = version | p99.9 [x] = @p999_ns | max [x] = @max_ns";

/// Adds the tables: all cases, and restricted over unrestricted.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "Updates beside boosted threads", &cases));
    let Some(window) = cases.iter().find(|case| case.ends_with(Boost::Window.name())) else { return };
    let before = window.replace(Boost::Window.name(), Boost::Unrestricted.name());
    let rise = |report: &Report, case: &str, version: &str, figure: &str| {
        let mut compared = Compared::new(case, version, version, figure);
        compared.under.case.clone_from(&before);
        let ratio = report.ratio(&compared);
        ratio.map_or_else(|| "-".into(), |ratio| report::sheet::number(ratio.ratio))
    };
    let title = "Restricted and boosted in the middle third, over unrestricted (the paper: 22.7 and 1.07)";
    report.show(Sheet::new(RISES).own(&rise).of(report, title, &[window]));
}
