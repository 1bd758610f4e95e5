//! `manx bench sim MACHINE quota`: a program that its quota stops, as it is and paced, side by side
//! on a simulated machine.
//!
//! The decisions are those of the helper of `manx run`: the same source, `pace.rs`. What the helper
//! reads and does is modelled: it is a thread in the group, so that the quota stops it, too; it
//! looks once in each period, and binds all other threads.
//!
//! An operation of a gang is a phase: each thread works, and then all meet. One of threads that
//! compute by themselves is a piece of work. What is counted begins when the helper has long
//! decided.

#[path = "../../../crates/cli/src/run/quota/pace.rs"]
#[allow(dead_code, reason = "the helper uses all of it")]
mod pace;

use crate::error::Error;
use crate::harness::{Bench, Case, Sample};
use crate::place::Place;
use contention::named;
use pace::{Pacer, Seen, period_ns};
use platform_sim::atomic::{AtomicU32, Ordering};
use platform_sim::chance::Chance;
use platform_sim::machine::{Cpu, Machine, Quota};
use platform_sim::{clock, cpu, futex, simulation, thread, usage};
use report::{Histogram, Report, Sheet};
use std::cmp::Reverse;
use std::collections::BTreeSet;
// The standard library's: what is counted there is no step of the program.
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const MS: u64 = 1_000_000;
/// The time before anything is counted, in which all threads begin.
const FROM_NS: u64 = 2_500 * MS;
const START_NS: u64 = 10 * MS;
/// Linux' defaults: the period of a quota, and what a CPU takes of it at a time.
const PERIOD_NS: u64 = 100 * MS;
const QUOTA_SLICE_NS: u64 = 5 * MS;
/// The time between two looks of a thread that spins.
const LOOK_NS: u64 = 3_000;
/// In Manx's way a thread spins for this time, and then looks after sleeps of this length.
const SPIN_NS: u64 = 20_000;
const SLEEP_NS: u64 = 50_000;
/// The idle time of CPUs is known in ticks.
const TICK_NS: u64 = 10 * MS;

named! {
    /// The ways in which threads wait between two pieces of work.
    pub enum Waits {
        /// They meet, and spin until all are there.
        Spins = "spin",
        /// They meet, and spin only for a moment, as loops do that `manx run` cures.
        Cured = "cured",
        /// They meet, and sleep until they are woken.
        Sleeps = "sleep",
        /// They wait for nobody.
        Computes = "compute",
    }
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The way in which its threads wait
    pub waits: Waits,
    /// The number of threads
    pub threads: u32,
    /// The length of a piece of work, a quarter less to a quarter more
    pub work_ns: u64,
    /// True if there is a helper
    pub is_paced: bool,
    /// For how long is counted
    pub time_ns: u64,
}

/// The work that a program has done.
#[derive(Clone, Debug)]
pub struct Did {
    /// The number of CPUs that the quota had stopped, on average
    pub throttled_cpus: f64,
    /// The part of the time for which the program was paced
    pub paced_share: f64,
    /// Operations in a second
    pub ops_per_s: f64,
    /// The times that they took
    pub times: Histogram,
}

/// The program while it runs.
struct Running {
    program: Program,
    quota: Quota,
    cpus: Vec<Cpu>,
    seed: u64,
    arrived: AtomicU32,
    phase: AtomicU32,
    over: AtomicU32,
    began_ns: AtomicU64,
    paced_ns: AtomicU64,
    times: Mutex<Histogram>,
}

/// Runs a program with this number of CPUs as its quota.
pub fn run(machine: &Machine, quota_cpus: f64, seed: u64, program: Program) -> Did {
    let quota_ns = (quota_cpus * PERIOD_NS as f64) as u64;
    let quota = Quota { quota_ns, period_ns: PERIOD_NS, slice_ns: QUOTA_SLICE_NS };
    let machine = Machine { quota: Some(quota), ..machine.clone() };
    let running = Running {
        program,
        quota,
        cpus: machine.cpus(),
        seed,
        arrived: AtomicU32::new(0),
        phase: AtomicU32::new(0),
        over: AtomicU32::new(0),
        began_ns: AtomicU64::new(0),
        paced_ns: AtomicU64::new(0),
        times: Mutex::new(Histogram::new()),
    };
    simulation::run(&machine, seed, move || Arc::new(running).measure()).value
}

impl Running {
    fn measure(self: Arc<Running>) -> Did {
        let spawn = |run: fn(&Running, u64), number: u64| {
            let running = Arc::clone(&self);
            thread::spawn(move || run(&running, number))
        };
        let mut all: Vec<_> = (0..self.program.threads).map(|it| spawn(Running::work, it.into())).collect();
        all.extend(self.program.is_paced.then(|| spawn(Running::keep, 0)));
        let look = || (clock::now_ns(), usage::throttled_ns(), self.paced_ns.load(Ordering::Relaxed));
        thread::sleep_ns(FROM_NS);
        let from = look();
        thread::sleep_ns(self.program.time_ns);
        let to = look();
        self.over.store(1, Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(&self.phase);
        all.into_iter().for_each(|thread| thread.join().unwrap_or(()));
        let ns = (to.0 - from.0) as f64;
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Did {
            throttled_cpus: (to.1 - from.1) as f64 / ns,
            paced_share: (to.2 - from.2) as f64 / ns,
            ops_per_s: times.count() as f64 * 1e9 / ns,
            times,
        }
    }

    fn work(&self, number: u64) {
        let mut chance = Chance::new(self.seed << 16 | number);
        thread::sleep_ns(chance.below(START_NS));
        let mut began_ns = clock::now_ns();
        while self.over.load(Ordering::Relaxed) == 0 {
            let work_ns = self.program.work_ns;
            cpu::work(work_ns * 3 / 4 + chance.below(work_ns / 2 + 1));
            if self.program.waits == Waits::Computes {
                began_ns = self.done(began_ns);
            } else {
                self.meet();
            }
        }
    }

    /// An operation is over. Returns when the next one begins.
    fn done(&self, began_ns: u64) -> u64 {
        let now_ns = clock::now_ns();
        if now_ns >= FROM_NS && self.over.load(Ordering::Relaxed) == 0 {
            self.times.lock().unwrap_or_else(PoisonError::into_inner).record(now_ns - began_ns);
        }
        now_ns
    }

    fn meet(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < self.program.threads {
            return self.wait(phase);
        }
        self.began_ns.store(self.done(self.began_ns.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::AcqRel);
        if self.program.waits == Waits::Sleeps {
            futex::wake_all(&self.phase);
        }
    }

    fn wait(&self, phase: u32) {
        let began_ns = clock::now_ns();
        while self.phase.load(Ordering::Acquire) == phase && self.over.load(Ordering::Relaxed) == 0 {
            match self.program.waits {
                Waits::Sleeps => drop(futex::wait(&self.phase, phase)),
                Waits::Cured if clock::now_ns() - began_ns > SPIN_NS => thread::sleep_ns(SLEEP_NS),
                _ => cpu::work(LOOK_NS),
            }
        }
    }

    /// The helper.
    fn keep(&self, _number: u64) {
        let Quota { quota_ns, period_ns: quota_period_ns, .. } = self.quota;
        let (time, period) = (Duration::from_nanos(quota_ns), Duration::from_nanos(quota_period_ns));
        let quota = Some(manx::cpu::Quota::new(time, period));
        let mut pacer = Pacer::new(self.cpus.len());
        let (mut order, mut narrow, mut last_ns): (Vec<usize>, _, _) = ((0..self.cpus.len()).collect(), 0, 0);
        while self.over.load(Ordering::Relaxed) == 0 {
            let was_paced = pacer.pace().is_some();
            let (busy_ns, now_ns) = (usage::busy_ns_of_cpus(), clock::now_ns());
            self.paced_ns.fetch_add(if was_paced { now_ns - last_ns } else { 0 }, Ordering::Relaxed);
            last_ns = now_ns;
            pacer.see(Seen {
                now_ns,
                quota,
                stopped_ns: usage::throttled_ns(),
                got_ns: clock::process_cpu_ns(),
                slices: usage::slices(),
                code: 0,
                idle_ns: order[..narrow].iter().map(|&cpu| now_ns.saturating_sub(busy_ns[cpu])).sum(),
            });
            let Some((pace, since_ns)) = pacer.pace() else {
                if was_paced {
                    self.bind(&order);
                }
                thread::sleep_ns(period_ns(quota));
                continue;
            };
            if !was_paced {
                (order, narrow) = (self.order(&busy_ns), pace.narrow);
            }
            let (cpus, for_ns) = pace.at(now_ns - since_ns);
            self.bind(&order[..cpus]);
            thread::sleep_ns(for_ns);
        }
    }

    /// The CPUs as `Group::choose` orders them: idle ones first, one of each core before the
    /// second.
    fn order(&self, busy_ns: &[u64]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.rotate_left(self.seed as usize % self.cpus.len());
        order.sort_by_key(|&cpu| busy_ns[cpu] / TICK_NS);
        let mut used = BTreeSet::new();
        order.sort_by_key(|&cpu| Reverse(used.insert(self.cpus[cpu].core)));
        order
    }

    fn bind(&self, cpus: &[usize]) {
        let mut mask = [0; cpu::COUNT_MAX / 64];
        cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        // The first thread only measures.
        (2..self.program.threads + 2).for_each(|thread| cpu::bind_other(thread, &mask).unwrap_or(()));
    }
}

/// What the experiment needs to know.
#[derive(Debug)]
pub struct Setup {
    /// Where the runs are made
    pub place: Place,
    /// The quotas, in CPUs
    pub quotas: Vec<f64>,
    /// How many threads, one case each; none: as many as the machine has CPUs, and four times that
    pub threads: Vec<u32>,
    /// What they do
    pub waits: Vec<Waits>,
    /// The rounds of each case
    pub rounds: usize,
    /// The length of a piece of work
    pub work_ns: u64,
    /// For how long is counted
    pub time: Duration,
}

/// Runs every case; what was found is in `bench.report`.
///
/// # Errors
/// [`Error::Interrupted`], or there is no simulated machine.
pub fn measure(setup: &Setup, bench: &mut Bench) -> Result<(), Error> {
    let machine = setup.place.machine().ok_or_else(|| Error::failed("no simulated machine".to_owned()))?;
    let cpus = machine.cpus().len() as u32;
    let usual = [cpus, 4 * cpus];
    let threads = if setup.threads.is_empty() { &usual[..] } else { &setup.threads };
    for (quota, threads) in setup.quotas.iter().flat_map(|quota| threads.iter().map(move |it| (*quota, *it)))
    {
        for &waits in &setup.waits {
            let name = format!("{quota} CPUs, {threads} threads, {}", waits.name());
            let case = Case { name: &name, variants: &["as it is", "paced"], expected: setup.time };
            bench.rounds(case, setup.rounds, |at, _| {
                let (work_ns, time_ns) = (setup.work_ns, setup.time.as_nanos() as u64);
                let program = Program { waits, threads, work_ns, is_paced: at == 1, time_ns };
                let seed = setup.place.next_seed();
                let did = run(machine, quota, seed, program);
                let mut sample = Sample::of([("ops_per_s", did.ops_per_s), ("seed", seed as f64)]);
                sample.add("throttled_cpus", did.throttled_cpus);
                sample.add("paced_share", did.paced_share);
                sample.add_tail("", &did.times);
                Ok(sample.with(&did.times))
            })?;
        }
    }
    Ok(())
}

const TABLE: &str = "
    case = case | program = version | runs [] = rounds | CPUs throttled [] = throttled_cpus
    paced [%] = paced_share | operations = ops_per_s | p50 = p50_ns | p99 = p99_ns | max = worst max_ns";

/// Adds the table.
pub fn conclude(report: &mut Report) {
    let cases = report.cases();
    report.show(Sheet::new(TABLE).of(report, "Programs under a quota", &cases));
}
