//! The victims of busy waiting, in small: gangs of threads that meet at a barrier. One gang alone
//! wants to spin; beside a second one on the same CPUs spinning makes both slow, and sleeping makes
//! both fast. The model must show that, or nothing that it says about waiting is worth anything.

use platform_sim::atomic::{AtomicU32, Ordering};
use platform_sim::chance::Chance;
use platform_sim::machine::Machine;
use platform_sim::memory::Allocator;
use platform_sim::simulation::run;
use platform_sim::{clock, cpu, futex, thread};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// As libgomp spins before it sleeps.
const SPINS: u32 = 300_000;
const UNTIL_NS: u64 = 100_000_000;

#[derive(Default)]
struct Barrier {
    arrived: AtomicU32,
    phase: AtomicU32,
    asleep: AtomicU32,
    /// The last member that arrives says so, so that all make as many phases.
    over: AtomicU32,
}

impl Barrier {
    fn wait(&self, members: u32, spins: u32) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == members {
            self.over.store(u32::from(clock::now_ns() >= UNTIL_NS), Ordering::Relaxed);
            self.arrived.store(0, Ordering::Relaxed);
            self.phase.fetch_add(1, Ordering::AcqRel);
            if self.asleep.load(Ordering::SeqCst) > 0 {
                futex::wake_all(&raw const self.phase);
            }
            return;
        }
        for _ in 0..spins {
            if self.phase.load(Ordering::Acquire) != phase {
                return;
            }
            cpu::pause();
        }
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while self.phase.load(Ordering::SeqCst) == phase {
            futex::wait(&self.phase, phase);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many phases per second the slowest of some gangs reaches.
fn phases_per_s(seed: u64, gangs: u32, members: u32, spins: u32) -> u64 {
    let here = Machine::known("here").expect("a machine");
    let outcome = run(&here, seed, move || {
        let (mut all, mut chance) = (Vec::new(), Chance::new(seed));
        for _ in 0..gangs {
            let barrier = Arc::new(Barrier::default());
            for member in 0..members {
                let barrier = Arc::clone(&barrier);
                let starts_ns = chance.below(10_000_000);
                all.push(thread::spawn(move || {
                    let mut phases = 0u64;
                    thread::sleep_ns(starts_ns);
                    while barrier.over.load(Ordering::Relaxed) == 0 {
                        cpu::work(15_000 + 7_000 * u64::from(member));
                        barrier.wait(members, spins);
                        phases += 1;
                    }
                    phases
                }));
            }
        }
        all.into_iter().map(|thread| thread.join().unwrap()).min().unwrap_or(0)
    });
    outcome.value * 1_000_000_000 / outcome.now_ns
}

#[test]
fn spinning_is_right_alone_and_may_ruin_a_pair() {
    let (mut ruined, mut lucky) = (0, 0);
    for seed in 0..6 {
        let (spins, sleeps) = (phases_per_s(seed, 1, 2, SPINS), phases_per_s(seed, 1, 2, 0));
        assert!(spins > sleeps, "alone, seed {seed}: {spins} spinning, {sleeps} sleeping");
        let (spins, sleeps) = (phases_per_s(seed, 2, 2, SPINS), phases_per_s(seed, 2, 2, 0));
        assert!(sleeps > 10_000, "a pair, seed {seed}: {sleeps} sleeping");
        println!("a pair, seed {seed}: {spins} phases/s spinning, {sleeps} sleeping");
        // Each phase takes a slice, or none does: both states last.
        ruined += u32::from(spins < sleeps / 50);
        lucky += u32::from(spins > sleeps / 2);
    }
    assert!(ruined > 0 && ruined + lucky == 6, "{ruined} in lock-step, {lucky} not");
}
