//! The pool on simulated machines: its workers, its queue, its control thread, and what these read
//! of the kernel: the budget, how long workers waited for CPUs, neighbours' clocks.

use manx_sim::pool::{Control, FriendlyPool, FriendlyPoolBuilder, Stats};
use platform::machine::{Machine, Neighbour};
use platform::memory::Allocator;
use platform::simulation::{self, Outcome};
use platform::task::Times;
use platform::{clock, cpu, thread};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const JOB_NS: u64 = 2_000_000;
/// Long enough for the first looks at neighbours.
const TIME_NS: u64 = 4_000_000_000;

fn builder(workers: usize, control: Control) -> FriendlyPoolBuilder {
    FriendlyPool::builder().num_threads(workers).queue_capacity(2 * workers).control(control)
}

fn pool(workers: usize, control: Control) -> FriendlyPool {
    builder(workers, control).build().expect("a pool")
}

/// What came of a pool that has always jobs queued: at the end, and for how long its threads waited
/// for a CPU of the time in which they wished to run.
fn busy(machine: &Machine, workers: usize, control: Control) -> (Stats, f64) {
    busy_with(machine, move || builder(workers, control))
}

fn busy_with(machine: &Machine, builder: impl FnOnce() -> FriendlyPoolBuilder + 'static) -> (Stats, f64) {
    let outcome = simulation::run(machine, 1, move || {
        let pool = builder().build().expect("a pool");
        while clock::now_ns() < TIME_NS {
            pool.execute(|| cpu::work(JOB_NS)).expect("it is open");
        }
        pool.stats()
    });
    let sum = |of: fn(&Times) -> u64| outcome.threads.iter().map(of).sum::<u64>() as f64;
    let (run_ns, wait_ns) = (sum(|times| times.run_ns), sum(|times| times.wait_ns));
    (outcome.value, wait_ns / (run_ns + wait_ns))
}

fn known(name: &str) -> Machine {
    Machine::known(name).expect("a machine")
}

/// Processes with this number of threads each, which never sleep.
fn beside(machine: &Machine, processes: usize, threads: u32) -> Machine {
    let neighbour = Neighbour { count: threads, nice: 0, cpus: Vec::new(), busy_ns: 0, idle_ns: 0 };
    Machine { neighbour: vec![neighbour; processes], ..machine.clone() }
}

#[test]
fn a_quota_is_used_up_without_being_throttled() {
    let container = Machine { neighbour: Vec::new(), ..known("container") };
    let ((all, all_wait), (paced, paced_wait)) =
        (busy(&container, 4, Control::Fixed), busy(&container, 4, Control::default()));
    assert_eq!((paced.limit, paced.budget_cpus), (2, 1.5));
    assert!(paced.paced > 0 && paced.completed * 20 > all.completed * 19, "{all:?}, {paced:?}");
    // A throttled job takes what is left of a period of 100 ms.
    assert!(all.service.max.as_nanos() > 30_000_000, "{all:?}");
    assert!(paced.service.max.as_nanos() < 10_000_000 && paced_wait < all_wait, "{paced:?}");
}

#[test]
fn a_pool_takes_its_part_beside_a_process_of_more_threads() {
    // Three threads of one process have three of four CPUs; 1.5 are allowed.
    let container = beside(&known("container"), 1, 3);
    let (manx, _) = busy(&container, 4, Control::default());
    let (share, _) = busy(&container, 4, Control::Share);
    assert!(manx.completed * 2 > share.completed * 5 / 2, "{manx:?}, {share:?}");
    // A process of as many threads as there are CPUs; half of them would be fair.
    let epyc = beside(&known("epyc-64"), 1, 64);
    let (manx, _) = busy(&epyc, 32, Control::default());
    assert!(manx.target == 32 && manx.completed > 20_000, "{manx:?}");
}

#[test]
fn a_worker_that_shares_its_cpu_is_hardly_ever_interrupted() {
    // Five threads on four CPUs: the paper's rules leave the fourth CPU's half to the neighbours.
    let container = known("container");
    let (manx, _) = busy(&container, 4, Control::default());
    let (share, _) = busy(&container, 4, Control::Share);
    assert!(manx.completed * 10 > share.completed * 11, "{manx:?}, {share:?}");
    assert!(manx.service.p99.as_secs_f64() < 1.6 * share.service.p99.as_secs_f64(), "{manx:?}, {share:?}");
}

#[test]
fn a_factor_of_overcommitment_makes_more_workers_and_longer_jobs() {
    let alone = known("m1");
    for control in [Control::Pressure, Control::Share] {
        let with = |factor| busy_with(&alone, move || builder(16, control).overcommit(factor)).0;
        let [half, one, two] = [0.5, 1.0, 2.0].map(with);
        assert_eq!([half.target, one.target, two.target], [4, 8, 16], "{control:?}");
        assert!(half.completed < one.completed, "{control:?}: {half:?}, {one:?}");
        assert!(one.service.p99 < two.service.p99, "{control:?}: {one:?}, {two:?}");
    }
}

#[test]
fn a_pool_gives_way_to_many_processes() {
    let crowded = beside(&known("epyc-64"), 64, 1);
    let ((all, all_wait), (ruled, ruled_wait)) =
        (busy(&crowded, 16, Control::Fixed), busy(&crowded, 16, Control::default()));
    assert!(ruled.target < 16 && ruled_wait < all_wait, "{all:?}, {ruled:?}");
}

#[test]
fn a_pool_alone_has_all_its_workers() {
    for control in [Control::default(), Control::Share] {
        let (stats, _) = busy(&known("xeon-2x28x2"), 16, control);
        assert_eq!((stats.target, stats.active, stats.limit), (16, 16, 16), "{control:?}");
    }
}

#[test]
fn a_pool_that_has_nothing_to_do_costs_nothing() {
    let times = |rest_ns| {
        let outcome = simulation::run(&known("m1"), 1, move || {
            let pool = pool(8, Control::default());
            for _ in 0..64 {
                pool.execute(|| cpu::work(JOB_NS)).expect("it is open");
            }
            while pool.stats().completed < 64 {
                thread::sleep_ns(1_000_000);
            }
            thread::sleep_ns(rest_ns);
        });
        outcome.threads[1..].iter().map(|times| (times.run_ns, times.voluntary)).collect::<Vec<_>>()
    };
    // By a second all threads sleep, and the rest is as long as one likes.
    assert_eq!(times(1_000_000_000), times(60_000_000_000));
}

#[test]
fn a_run_is_the_same_each_time() {
    let run = || -> Outcome<u64> {
        simulation::run(&beside(&known("container"), 1, 3), 7, || {
            let pool = pool(4, Control::default());
            let jobs: Vec<_> = (0..400).map(|_| pool.submit(|| cpu::work(JOB_NS)).expect("open")).collect();
            jobs.into_iter().for_each(|job| job.join().expect("it ended"));
            pool.stats().completed
        })
    };
    let (first, second) = (run(), run());
    assert_eq!((first.value, first.hash, first.now_ns), (400, second.hash, second.now_ns));
}
