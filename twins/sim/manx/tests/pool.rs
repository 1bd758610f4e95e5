//! The pool's rules on simulated machines: a control thread that decides, at each tick, how many
//! workers are active, by how long they waited for CPUs.
//!
//! The workers do jobs of a millisecond, and there are always more. The control thread is that of
//! `controller.rs` without what reads files: the budget, neighbours' clocks, idle CPUs.

use manx_sim::pool::control::pressure::Pressure;
use manx_sim::pool::control::{DEFAULT_TICK, Seen};
use manx_sim::pool::workers::{Call, Signal, Workers};
use platform::machine::{Machine, Neighbour};
use platform::memory::Allocator;
use platform::{clock, cpu, simulation, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

const JOB_NS: u64 = 1_000_000;
const TICKS: u32 = 200;

/// What a worker says of itself, and what the pool has done.
#[derive(Default)]
struct Sums {
    run_ns: AtomicU64,
    wait_ns: AtomicU64,
    jobs: AtomicU64,
    is_over: AtomicBool,
}

struct Pool {
    workers: Workers,
    sums: Sums,
}

impl Pool {
    fn offer(self: &Arc<Pool>) -> Option<thread::JoinHandle<()>> {
        let Call::Start(slot) = self.workers.offer(self.workers.target()) else { return None };
        let pool = Arc::clone(self);
        Some(thread::spawn(move || pool.work(slot)))
    }

    fn work(self: Arc<Pool>, slot: usize) {
        let (mut started, mut before) = (Vec::new(), simulation::times());
        loop {
            if self.sums.is_over.load(Ordering::Relaxed) {
                self.workers.rest(slot);
            } else {
                if self.workers.found() {
                    started.extend(self.offer());
                }
                cpu::work(JOB_NS);
                let now = simulation::times();
                self.sums.run_ns.fetch_add(now.run_ns - before.run_ns, Ordering::Relaxed);
                self.sums.wait_ns.fetch_add(now.wait_ns - before.wait_ns, Ordering::Relaxed);
                self.sums.jobs.fetch_add(1, Ordering::Relaxed);
                before = now;
                if !self.workers.retire(slot, self.workers.target()) {
                    self.workers.search();
                    continue;
                }
            }
            if self.workers.wait(slot) == Signal::Exit {
                break;
            }
            before = simulation::times();
        }
        started.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// What came of a run: how many workers are active at the end, of all jobs how many there were in a
/// second, and the part of the time for which workers waited for a CPU.
#[derive(Debug)]
struct Found {
    target: u32,
    jobs_per_s: f64,
    waiting: f64,
}

/// Runs a pool of at most this number of workers; without `rules` all are active.
fn run(machine: &Machine, limit: u32, has_rules: bool) -> Found {
    simulation::run(machine, 1, move || {
        let workers = Workers::new(limit as usize, limit);
        let pool = Arc::new(Pool { workers, sums: Sums::default() });
        let mut started: Vec<_> = pool.offer().into_iter().collect();
        let (mut rules, began_ns) = (Pressure::default(), clock::now_ns());
        let (mut seen_ns, mut seen) = (began_ns, [0; 2]);
        for _ in 0..TICKS {
            thread::sleep_ns(clock::duration_ns(DEFAULT_TICK));
            let now_ns = clock::now_ns();
            let sums = [&pool.sums.run_ns, &pool.sums.wait_ns].map(|sum| sum.load(Ordering::Relaxed));
            let seen_now = Seen {
                target: pool.workers.target(),
                limit,
                run_ns: sums[0] - seen[0],
                wait_ns: sums[1] - seen[1],
                elapsed_ns: now_ns - seen_ns,
                ticks: 1,
                queued: true,
                cpu_idle: None,
            };
            (seen_ns, seen) = (now_ns, sums);
            if let Some((to, _)) = rules.decide(&seen_now).filter(|_| has_rules) {
                pool.workers.set_target(to);
            }
            started.extend(pool.offer());
        }
        let elapsed_s = (clock::now_ns() - began_ns) as f64 / 1e9;
        pool.sums.is_over.store(true, Ordering::Relaxed);
        let found = Found {
            target: pool.workers.target(),
            jobs_per_s: pool.sums.jobs.load(Ordering::Relaxed) as f64 / elapsed_s,
            waiting: seen[1] as f64 / (seen[0] + seen[1]) as f64,
        };
        pool.workers.close();
        started.into_iter().for_each(|thread| thread.join().unwrap());
        found
    })
    .value
}

fn known(name: &str) -> Machine {
    Machine::known(name).expect("a machine")
}

#[test]
fn a_pool_in_a_container_has_fewer_workers_that_wait_less() {
    let container = known("container");
    let (all, ruled) = (run(&container, 4, false), run(&container, 4, true));
    assert!(ruled.target < 4 && ruled.waiting < all.waiting, "{all:?}, {ruled:?}");
    // It gives way to neighbours that never do: what corrects that reads their clocks, and is not
    // here.
    assert!(ruled.jobs_per_s > 0.6 * all.jobs_per_s, "{all:?}, {ruled:?}");
}

#[test]
fn a_pool_on_a_large_machine_has_all_its_workers_while_it_is_alone() {
    let xeon = known("xeon-2x28x2");
    assert_eq!(run(&xeon, 16, true).target, 16);
    let neighbour = Neighbour { count: 112, nice: 0, cpus: Vec::new(), busy_ns: 0, idle_ns: 0 };
    let crowded = Machine { neighbour: vec![neighbour], ..xeon };
    let (all, ruled) = (run(&crowded, 16, false), run(&crowded, 16, true));
    assert!(ruled.target < 16 && ruled.waiting < all.waiting, "{all:?}, {ruled:?}");
}
