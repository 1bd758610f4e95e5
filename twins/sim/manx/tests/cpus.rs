//! What the room `cpu` learns of a simulated machine: whether CPUs are short, and which node this
//! is.

use manx_sim::cpu::{keep_shortage, set_short_of_cpus, short_of_cpus};
use manx_sim::lock::{RawLock, RawMutex};
use platform::machine::{Machine, Neighbour};
use platform::memory::Allocator;
use platform::{cpu, simulation, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn known(name: &str) -> Machine {
    Machine::known(name).expect("a machine")
}

/// Threads that work 20 µs under a mutex and 80 µs beside it, some hundred times. Returns how many
/// sections of them all saw that CPUs are short, in thousandths.
fn short_in_thousandths(machine: &Machine, threads: usize) -> u32 {
    const ROUNDS: u32 = 600;
    simulation::run(machine, 1, move || {
        let keeper = keep_shortage();
        let shared = Arc::new((RawMutex::new(), AtomicU32::new(0)));
        let work = |shared: &(RawMutex, AtomicU32)| {
            for _ in 0..ROUNDS {
                RawLock::lock(&shared.0);
                cpu::work(20_000);
                shared.1.fetch_add(u32::from(short_of_cpus()), Ordering::Relaxed);
                // SAFETY: locked by this thread.
                unsafe { RawLock::unlock(&shared.0, ()) };
                cpu::work(80_000);
            }
        };
        let start = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || work(&shared))
        };
        let all: Vec<_> = (0..threads).map(start).collect();
        all.into_iter().for_each(|thread| thread.join().unwrap());
        drop(keeper);
        assert!(!short_of_cpus(), "no keeper is left");
        shared.1.load(Ordering::Relaxed) * 1000 / (ROUNDS * threads as u32)
    })
    .value
}

#[test]
fn cpus_are_short_in_a_container_with_a_quota_beside_neighbours() {
    let container = known("container");
    assert!(short_in_thousandths(&container, 8) > 500);
    // Two threads on four CPUs, without a quota and without neighbours, wait for no CPU.
    let free = Machine { quota: None, neighbour: Vec::new(), ..container };
    assert_eq!(short_in_thousandths(&free, 2), 0);
}

#[test]
fn cpus_are_short_on_a_large_machine_only_beside_many_threads() {
    let xeon = known("xeon-2x28x2");
    assert_eq!(short_in_thousandths(&xeon, 8), 0);
    let neighbour = Neighbour { count: 224, nice: 0, cpus: Vec::new(), busy_ns: 0, idle_ns: 0 };
    let crowded = Machine { neighbour: vec![neighbour], ..xeon };
    assert!(short_in_thousandths(&crowded, 8) > 300);
}

#[test]
fn what_a_caller_says_holds_without_a_keeper() {
    simulation::run(&known("here"), 1, || {
        set_short_of_cpus(true);
        let mutex = RawMutex::new();
        RawLock::lock(&mutex);
        assert!(short_of_cpus());
    });
}
