//! Several processes with a pool each, on simulated machines: figure 7 of the paper on friendly
//! pools (Jeffery, Jensen and Mortier), by the pools' own code. Each process has its own statics,
//! CPU clock and `/proc/self`, and sees the others in `/proc`.

use manx_sim::pool::registry::Registry;
use manx_sim::pool::{Control, FriendlyPool, Shutdown, Stats};
use platform::chance::Chance;
use platform::machine::Machine;
use platform::memory::Allocator;
use platform::simulation::{self, Outcome};
use platform::task::Times;
use platform::{clock, cpu, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const JOB_NS: u64 = 2_000_000;
const TIME_NS: u64 = 1_000_000_000;
const LONG: Duration = Duration::from_secs(1_000);
const REGISTRY: &str = "/dev/shm/manx-cpus";

/// The pools of some processes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A thread for each CPU.
    Ignorant,
    /// The paper's rules.
    Friendly,
    /// The default.
    Manx,
    /// The default, with a registry.
    Registry,
}

/// The outcome of the pool of a process.
#[derive(Clone, Debug)]
struct Ended {
    /// When no more jobs came, before what was queued was done.
    stats: Stats,
    /// Number of times that each job was done.
    done: Vec<u32>,
}

fn pool(kind: Kind) -> FriendlyPool {
    let workers = cpu::count();
    let control = match kind {
        Kind::Ignorant => Control::Fixed,
        Kind::Friendly => Control::Share,
        Kind::Manx | Kind::Registry => Control::default(),
    };
    let mut pool = FriendlyPool::builder().num_threads(workers).control(control);
    if kind == Kind::Registry {
        let registry = Registry::at(REGISTRY).expect("a registry");
        pool = pool.registry(registry.join(1, workers as f64).expect("a place"));
    }
    pool.build().expect("a pool")
}

/// An open loop: a job each `every_ns`, and in the end all that are still queued.
fn serve(kind: Kind, every_ns: u64, phase_ns: u64) -> Ended {
    let (pool, start_ns) = (pool(kind), clock::now_ns());
    let count = (TIME_NS - phase_ns).div_ceil(every_ns);
    // They count without virtual time.
    let done: Arc<[AtomicU32]> = (0..count).map(|_| AtomicU32::new(0)).collect();
    for index in 0..count as usize {
        let due_ns = start_ns + phase_ns + index as u64 * every_ns;
        thread::sleep_ns(due_ns.saturating_sub(clock::now_ns()));
        let done = Arc::clone(&done);
        let job = move || {
            cpu::work(JOB_NS);
            done[index].fetch_add(1, Ordering::Relaxed);
        };
        pool.execute(job).expect("it is open");
    }
    let stats = pool.stats();
    pool.shutdown(Shutdown::Drain, LONG).expect("all jobs end");
    Ended { stats, done: done.iter().map(|done| done.load(Ordering::Relaxed)).collect() }
}

/// Processes that together get `load` times what the machine can do.
fn run(machine: &Machine, seed: u64, kind: Kind, processes: usize, load: f64) -> Outcome<Vec<Ended>> {
    let every_ns = JOB_NS as f64 * processes as f64 / (load * machine.cpus().len() as f64);
    simulation::run(machine, seed, move || {
        let mut chance = Chance::new(seed);
        let mut phase_ns = || (chance.unit() * every_ns) as u64;
        let phases: Vec<u64> = (0..processes).map(|_| phase_ns()).collect();
        let start = |phase_ns| thread::spawn_process(move || serve(kind, every_ns as u64, phase_ns));
        let started: Vec<_> = phases.into_iter().map(start).collect();
        started.into_iter().map(|process| process.join().expect("it ended")).collect()
    })
}

fn epyc() -> Machine {
    Machine::known("epyc-16").expect("a machine")
}

fn active(ended: &[Ended]) -> u32 {
    ended.iter().map(|ended| ended.stats.target).sum()
}

fn service_max(ended: &[Ended]) -> Duration {
    ended.iter().map(|ended| ended.stats.service.max).max().expect("a process")
}

#[test]
fn at_overload_four_friendly_pools_share_the_cpus_and_their_jobs_are_preempted_less() {
    for seed in 1..=2 {
        let of = |kind| run(&epyc(), seed, kind, 4, 1.5);
        let ignorant = of(Kind::Ignorant);
        assert_eq!(active(&ignorant.value), 4 * 16);
        for kind in [Kind::Friendly, Kind::Manx, Kind::Registry] {
            let outcome = of(kind);
            let ended = &outcome.value;
            // Rounding up adds at most one for each process, and an uneven moment another one.
            let active = active(ended);
            assert!((12..=24).contains(&active), "{kind:?}, seed {seed}: {active} active of 16 CPUs");
            let (longest, of_ignorant) = (service_max(ended), service_max(&ignorant.value));
            assert!(longest < of_ignorant, "{kind:?}, seed {seed}: {longest:?}, {of_ignorant:?}");
            // All jobs are done, each once, by as much work as with the other pools.
            assert!(ended.iter().all(|ended| ended.done.iter().all(|done| *done == 1)), "{kind:?}, {seed}");
            let work = |times: &[Times]| times.iter().map(|times| times.run_ns).sum::<u64>() as f64;
            let ratio = work(&outcome.threads) / work(&ignorant.threads);
            assert!((0.95..1.05).contains(&ratio), "{kind:?}, seed {seed}: {ratio} times the work");
        }
    }
}

#[test]
fn where_cpus_are_free_no_pool_waits_for_another() {
    for kind in [Kind::Ignorant, Kind::Friendly, Kind::Manx, Kind::Registry] {
        let ended = run(&epyc(), 1, kind, 2, 0.3).value;
        let left: usize = ended.iter().map(|ended| ended.stats.queued).sum();
        assert!(left <= 4, "{kind:?}: {left} jobs are queued");
        let p50 = ended.iter().map(|ended| ended.stats.service.p50).max().expect("a process");
        assert!(p50 < Duration::from_nanos(JOB_NS * 5 / 4), "{kind:?}: {p50:?}");
    }
}

#[test]
fn a_process_has_statics_a_number_and_a_clock_of_its_own_and_sees_the_others() {
    platform::global! {
        static COUNT: platform::atomic::AtomicU64 = platform::atomic::AtomicU64::new(0);
    }
    let one = |work_ns: u64| {
        move || {
            let before = COUNT.fetch_add(1, platform::atomic::Ordering::Relaxed);
            let child = thread::spawn(move || cpu::work(work_ns));
            child.join().expect("it ended");
            let inside = COUNT.fetch_add(1, platform::atomic::Ordering::Relaxed);
            let mut seen = Vec::new();
            let each = |name: &[u8]| {
                seen.push(String::from_utf8_lossy(name).into_owned());
                true
            };
            platform::folder::each_folder(c"/proc", each).expect("/proc");
            (before, inside, thread::process_id(), clock::process_cpu_ns(), seen)
        }
    };
    let found = simulation::run(&epyc(), 1, move || {
        let others = [thread::spawn_process(one(5_000_000)), thread::spawn_process(one(7_000_000))];
        let own = one(1_000_000)();
        let all: Vec<_> = others.into_iter().map(|other| other.join().expect("it ended")).collect();
        let gone = platform::usage::process_cpu_ns_of(2);
        (own, all, gone)
    });
    let ((before, inside, process, used_ns, seen), others, gone) = found.value;
    assert_eq!((before, inside, process, seen), (0, 1, 1, ["1", "2", "3"].map(str::to_owned).to_vec()));
    assert!((900_000..2_000_000).contains(&used_ns), "{used_ns}");
    for ((before, inside, process, used_ns, _), (number, ns)) in others.iter().zip([(2, 5e6), (3, 7e6)]) {
        assert_eq!((*before, *inside, *process), (0, 1, number));
        assert!((0.9..1.2).contains(&(*used_ns as f64 / ns)), "{used_ns} of {ns}");
    }
    assert_eq!(gone, None, "it has ended");
}

#[test]
fn a_run_of_several_processes_is_the_same_each_time() {
    let of = |seed| {
        let outcome = run(&epyc(), seed, Kind::Registry, 3, 1.2);
        (outcome.hash, outcome.now_ns, active(&outcome.value), service_max(&outcome.value))
    };
    assert_eq!(of(7), of(7));
    assert_ne!(of(7).0, of(8).0);
}
