//! How many steps per second a machine makes while all its CPUs wait for one word. To be read, not
//! to pass: `cargo test -p platform-sim --release --test speed -- --ignored --nocapture`.

use platform_sim::atomic::{AtomicU32, Ordering};
use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use platform_sim::simulation::run;
use platform_sim::{clock, cpu, thread};
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[derive(Default)]
struct Ticket {
    next: AtomicU32,
    serving: AtomicU32,
}

/// A thread for each of these CPUs takes tickets of one lock until a time.
fn contend(machine: &Machine, cpus: usize, until_ns: u64) -> (u64, u64) {
    let outcome = run(machine, 1, move || {
        let ticket = Arc::new(Ticket::default());
        let one = |cpu: usize| {
            let ticket = Arc::clone(&ticket);
            thread::spawn_on(&[cpu], move || {
                while clock::now_ns() < until_ns {
                    let own = ticket.next.fetch_add(1, Ordering::AcqRel);
                    while ticket.serving.load(Ordering::Acquire) != own {
                        cpu::pause();
                    }
                    cpu::work(100);
                    ticket.serving.store(own.wrapping_add(1), Ordering::Release);
                }
            })
        };
        let threads: Vec<_> = (0..cpus).map(one).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    (outcome.steps, outcome.now_ns)
}

#[test]
#[ignore = "it measures real time"]
fn steps_per_second() {
    for (name, cpus) in [("here", 1), ("here", 2), ("epyc-64", 8), ("epyc-64", 64), ("xeon-2x28x2", 112)] {
        let machine = Machine::known(name).expect("a machine");
        let began = Instant::now();
        let (steps, now_ns) = contend(&machine, cpus, 20_000_000);
        let took = began.elapsed().as_secs_f64();
        let (rate, second) = (steps as f64 / took / 1e6, took * 1e9 / now_ns as f64);
        println!("{name}, {cpus} CPUs: {rate:.1} M steps/s, {second:.0} s for a virtual second");
    }
}
