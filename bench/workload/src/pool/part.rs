//! The parts of the experiment, as the user names them.

use super::cases::{self, Amount};
use super::go;
use super::plan::{Plan, Variant, process};
use super::spec::{Kind, Lock, Process, Task};
use crate::error::Error;
use crate::group::Limits;
use crate::harness::Bench;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

crate::parts::parts! {
    /// From nothing to do to all workers.
    Burst = "burst" by burst,
    /// Nothing to do, and what the pool does then.
    Idle = "idle" by idle,
    /// Jobs that do nothing.
    Submit = "submit" by submit,
    /// More and more processes.
    Neighbours = "neighbours" by neighbours,
    /// Two of different kinds.
    Mixed = "mixed" by mixed,
    /// Less CPU time than there are CPUs.
    Quota = "quota" by quota,
    /// The paper's factor.
    Overcommit = "overcommit" by overcommit,
    /// Quotas, shares or neither, where one of two is idle half of the time.
    Sharing = "sharing" by sharing,
    /// More and more threads, alone; and with the computation under a mutex.
    Threads = "threads" by threads,
}

// More and more threads, with no other program there: the paper's figures 2 and 3.
//
// The machine gets nine tenths of what it can do, so that too few threads show as a queue, and too
// many as service that takes longer. Under a mutex there is no more than one computation at a
// time, whatever the threads.

/// On a few CPUs; on more, up to twice their number.
const THREADS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const QUICK_THREADS: [usize; 1] = [3];
/// Of what the machine can do.
const LOAD: f64 = 0.9;

impl Plan {
    /// The threads of a pool that knows of no neighbour, without a lock and with each.
    pub(super) fn threads(&self, bench: &mut Bench) -> Result<(), Error> {
        let rate_per_s = LOAD * self.capacity.jobs_per_s;
        bench.note(format!(
            "threads: {rate_per_s:.0} jobs/s, nine tenths of what the machine does without a lock"
        ));
        let step = (self.stage.cpus / 4).max(1);
        for threads in self.sweep(&THREADS.map(|count| count * step), &QUICK_THREADS) {
            let locks = [Lock::None, Lock::Std, Lock::ParkingLot, Lock::Manx];
            let variants: Vec<Variant> = locks
                .into_iter()
                .map(|lock| {
                    let task = Task::Serve(self.load(rate_per_s, 0, Duration::ZERO));
                    let process = Process { lock, ..process(Kind::Ignorant, threads, task) };
                    let name = if lock == Lock::None { cases::NO_LOCK } else { lock.name() };
                    Variant::of(name, vec![process])
                })
                .collect();
            self.compare(bench, &cases::threads(threads), &variants)?;
        }
        Ok(())
    }
}

/// The time of nothing before a burst: many ticks of any pool.
const REST: Duration = Duration::from_millis(250);
/// Jobs of a batch, and batches of a run.
const JOBS: u32 = 100_000;
const BATCHES: u32 = 5;
const QUICK_JOBS: u32 = 2_000;

impl Plan {
    /// A version for each kind that has threads of its own here.
    fn each(&self, task: &Task) -> Vec<Variant> {
        let of = |kind: Kind| Variant::of(kind.name(), vec![process(kind, self.stage.cpus, task.clone())]);
        KINDS.iter().copied().filter(|kind| self.wants(*kind)).map(of).collect()
    }

    /// From nothing to do to all workers.
    pub(super) fn burst(&self, bench: &mut Bench) -> Result<(), Error> {
        let times = (self.setup.time.as_secs_f64() / REST.as_secs_f64()).ceil().max(1.0) as u32;
        let task = Task::Burst { times, rest: REST };
        self.compare(bench, cases::BURST, &self.each(&task))
    }

    /// Nothing to do.
    pub(super) fn idle(&self, bench: &mut Bench) -> Result<(), Error> {
        let task = Task::Idle { time: self.setup.time };
        self.compare(bench, cases::IDLE, &self.each(&task))
    }

    /// Jobs that do nothing.
    pub(super) fn submit(&self, bench: &mut Bench) -> Result<(), Error> {
        let jobs = if self.setup.quick { QUICK_JOBS } else { JOBS };
        for (case, inside) in [(cases::SUBMIT_OUTSIDE, false), (cases::SUBMIT_INSIDE, true)] {
            let task = Task::Submit { jobs, batches: BATCHES, inside };
            self.compare(bench, case, &self.each(&task))?;
        }
        Ok(())
    }
}

/// The kinds that differ when they are alone.
const KINDS: &[Kind] = &[
    Kind::Ignorant,
    Kind::FriendlyPool,
    Kind::Manx,
    Kind::Rayon,
    Kind::Tokio,
    Kind::RayonGate,
    Kind::TokioGate,
];

/// How many processes.
const PROCESSES: [usize; 5] = [1, 2, 3, 4, 8];
const QUICK_PROCESSES: [usize; 1] = [2];
/// The paper's factors, and how many processes have them.
const FACTORS: [f64; 6] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0];
const QUICK_FACTORS: [f64; 1] = [2.0];
const OVERCOMMITTED: [usize; 2] = [2, 4];
/// One of two has nothing to do for this time, after as long with too much.
const PAUSE: Duration = Duration::from_millis(500);

impl Plan {
    /// More and more processes of one kind, at overload and with room.
    pub(super) fn neighbours(&self, bench: &mut Bench) -> Result<(), Error> {
        for amount in Amount::ALL {
            for processes in self.sweep(&PROCESSES, &QUICK_PROCESSES) {
                let kinds = Kind::ALL.iter().filter(|kind| self.wants(**kind) && **kind != Kind::Go);
                let variants: Vec<Variant> = kinds
                    .map(|&kind| {
                        let threads = match kind {
                            Kind::Optimal => (self.stage.cpus / processes).max(1),
                            _ => self.stage.cpus,
                        };
                        let all = (0..processes).map(|index| {
                            let task = match amount {
                                Amount::Overload => self.overload(index),
                                Amount::Room => self.room(index, processes),
                            };
                            process(kind, threads, task)
                        });
                        Variant::of(kind.name(), all.collect())
                    })
                    .collect();
                self.compare(bench, &cases::neighbours(amount, processes), &variants)?;
            }
        }
        Ok(())
    }

    /// The paper's pool with more threads than its part of the CPUs.
    pub(super) fn overcommit(&self, bench: &mut Bench) -> Result<(), Error> {
        if !self.wants(Kind::FriendlyPool) {
            return Ok(());
        }
        for processes in self.sweep(&OVERCOMMITTED, &QUICK_PROCESSES) {
            let mut variants = Vec::new();
            for factor in self.sweep(&FACTORS, &QUICK_FACTORS) {
                // More threads than CPUs only where the factor asks for them.
                let threads = (self.stage.cpus as f64 * factor.max(1.0)).ceil() as usize;
                let all = (0..processes).map(|index| {
                    let mut process = process(Kind::FriendlyPool, threads, self.overload(index));
                    process.shape.overcommit = factor;
                    process
                });
                variants.push(Variant::of(cases::factor(factor), all.collect()));
            }
            self.compare(bench, &cases::overcommit(processes), &variants)?;
        }
        Ok(())
    }

    /// Two of different kinds, in one group, where the kernel divides the CPUs among threads: which
    /// of the two gives its share away?
    pub(super) fn mixed(&self, bench: &mut Bench) -> Result<(), Error> {
        let pairs = [
            (Kind::Ignorant, Kind::Ignorant),
            (Kind::Manx, Kind::Ignorant),
            (Kind::FriendlyPool, Kind::Ignorant),
            (Kind::Optimal, Kind::Ignorant),
            (Kind::Manx, Kind::FriendlyPool),
            (Kind::Manx, Kind::Manx),
        ];
        let mut variants: Vec<Variant> = pairs
            .into_iter()
            .filter(|(first, second)| self.wants(*first) && self.wants(*second))
            .map(|(first, second)| {
                let of = |kind: Kind, index| {
                    let threads =
                        if kind == Kind::Optimal { (self.stage.cpus / 2).max(1) } else { self.stage.cpus };
                    process(kind, threads, self.overload(index))
                };
                let both =
                    Variant::of(cases::pair(first, second), vec![of(first, 0), of(second, 1)]).told_apart();
                if self.stage.hierarchy.is_ok() { both.within(Limits::default()) } else { both }
            })
            .collect();
        let strangers = cases::pair(Kind::Manx, Kind::Ignorant);
        let apart = variants.iter().find(|variant| variant.name == strangers).map(|variant| Variant {
            name: format!("{strangers}, a group each"),
            ..variant.clone().within_each(Limits::default())
        });
        variants.extend(apart.filter(|_| self.stage.hierarchy.is_ok()));
        if self.stage.hierarchy.is_err() {
            bench.note("mixed: without control groups the processes share a session instead, unless it is to be one for each");
        }
        self.compare(bench, cases::MIXED, &variants)
    }

    /// Quotas, weights or neither, where one of two is idle half of the time: what it leaves, may
    /// the other have it?
    pub(super) fn sharing(&self, bench: &mut Bench) -> Result<(), Error> {
        let half = self.stage.cpus as f64 / 2.0;
        let mut variants = Vec::new();
        for kind in [Kind::Ignorant, Kind::Manx].into_iter().filter(|kind| self.wants(*kind)) {
            let both = |threads: usize| -> Vec<Process> {
                let pause = PAUSE.min(self.setup.time / 4);
                let idle = |task: Task| match task {
                    Task::Serve(load) => Task::Serve(super::spec::Load { pause: Some(pause), ..load }),
                    other => other,
                };
                vec![process(kind, threads, self.overload(0)), process(kind, threads, idle(self.overload(1)))]
            };
            let of = |scheme: &str, threads| {
                Variant::of(format!("{}, {scheme}", kind.name()), both(threads)).told_apart()
            };
            let whole = if kind == Kind::Manx { self.stage.cpus } else { (half as usize).max(1) };
            if self.stage.hierarchy.is_ok() {
                let quota = Limits { quota_cpus: Some(half), weight: None };
                variants.push(of("quotas", whole).within_each(quota));
                let shares = Limits { quota_cpus: None, weight: Some(1.0) };
                variants.push(of("shares", self.stage.cpus).within_each(shares));
            }
            variants.push(of("neither", self.stage.cpus));
        }
        if self.stage.hierarchy.is_err() {
            bench.note("sharing: quotas and shares are left out without control groups");
        }
        self.compare(bench, cases::SHARING, &variants)
    }
}

// Less CPU time than there are CPUs: the paper's figure 5, in Rust and in Go.
//
// A process with more threads than its quota has CPUs uses up the CPU time of a period early, and
// is stopped for the rest of the period. One thread with a quota of 1.5 CPUs leaves a third of it
// unused; below one CPU every number of threads is too large.

const QUOTAS: [f64; 3] = [0.5, 1.0, 1.5];
const QUICK_QUOTAS: [f64; 1] = [1.0];

/// The largest quota that a process of any part gets.
pub(super) fn largest(cpus: usize) -> f64 {
    QUOTAS.into_iter().fold(cpus as f64, f64::max)
}

impl Plan {
    /// Pools under quotas.
    pub(super) fn quota(&self, bench: &mut Bench) -> Result<(), Error> {
        if self.stage.hierarchy.is_err() {
            bench.note("quota: left out without control groups");
            return Ok(());
        }
        let go = self.go(bench);
        let mut quotas = QUOTAS.to_vec();
        quotas.push(self.stage.cpus as f64);
        for cpus in self.sweep(&quotas, &QUICK_QUOTAS) {
            let limits = Limits { quota_cpus: Some(cpus), weight: None };
            let whole = (cpus as usize).max(1);
            let of = |name: &str, process: Process| Variant::of(name, vec![process]).within(limits);
            let mut variants = Vec::new();
            for (name, kind, threads) in [
                (Kind::Ignorant.name(), Kind::Ignorant, self.stage.cpus),
                (cases::THREADS_AS_QUOTA, Kind::Optimal, whole),
                (Kind::FriendlyPool.name(), Kind::FriendlyPool, self.stage.cpus),
                (Kind::Manx.name(), Kind::Manx, self.stage.cpus),
                (Kind::Rayon.name(), Kind::Rayon, self.stage.cpus),
                (Kind::Tokio.name(), Kind::Tokio, self.stage.cpus),
                (Kind::RayonGate.name(), Kind::RayonGate, self.stage.cpus),
                (Kind::TokioGate.name(), Kind::TokioGate, self.stage.cpus),
            ] {
                if self.wants(kind) {
                    variants.push(of(name, process(kind, threads, self.overload(0))));
                }
            }
            for (name, program) in &go {
                let mut process = process(Kind::Go, whole, self.overload(0));
                process.program.clone_from(program);
                if *name == cases::GO_MANUAL {
                    process.environment.insert("GOMAXPROCS".into(), whole.to_string());
                }
                variants.push(of(name, process));
            }
            self.compare(bench, &cases::quota(cpus), &variants)?;
        }
        Ok(())
    }

    /// How the program in Go is started, in each of the ways that work here.
    fn go(&self, bench: &mut Bench) -> Vec<(&'static str, Vec<PathBuf>)> {
        if !self.wants(Kind::Go) {
            return Vec::new();
        }
        let program = match go::program(!self.setup.quick) {
            Ok(Some(program)) => program,
            Ok(None) => {
                bench.note("go is left out: a smoke check does not build it");
                return Vec::new();
            }
            Err(error) => {
                bench.note(format!("go is left out: {}", error.to_string().replace('\n', "; ")));
                return Vec::new();
            }
        };
        let mut ways =
            vec![(cases::GO_AUTOMATIC, vec![program.clone()]), (cases::GO_MANUAL, vec![program.clone()])];
        let under: Vec<PathBuf> = vec![self.setup.manx.clone(), "run".into(), "--".into(), program];
        let tried = Command::new(&under[0])
            .args(&under[1..])
            .args(["-seconds", "0.001"])
            .stdin(Stdio::null())
            .output();
        match tried {
            Ok(output) if output.status.success() => ways.push((cases::GO_MANX_RUN, under)),
            Ok(output) => {
                let words = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                bench.note(format!("{} is left out: {words}", cases::GO_MANX_RUN));
            }
            Err(error) => bench.note(format!("{} is left out: {error}", cases::GO_MANX_RUN)),
        }
        ways
    }
}
