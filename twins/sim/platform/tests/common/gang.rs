//! Gangs of two threads that meet at a barrier again and again. How a member waits for the other
//! one is the test's. The tests of the package `manx-sim` use this, too.

use platform::atomic::{AtomicU32, Ordering};
use platform::chance::Chance;
use platform::machine::Machine;
use platform::simulation::run;
use platform::{clock, cpu, thread};
use std::sync::Arc;

const MEMBERS: u32 = 2;
const UNTIL_NS: u64 = 100_000_000;

/// How a member waits.
pub trait Wait: Default + Send + Sync + 'static {
    /// Waits while the word is `phase`.
    fn wait(&self, word: &AtomicU32, phase: u32);
    /// The word has changed.
    fn changed(&self, _word: &AtomicU32) {}
}

#[derive(Default)]
struct Barrier<W> {
    arrived: AtomicU32,
    phase: AtomicU32,
    /// The last member that arrives says so, so that all make as many phases.
    over: AtomicU32,
    how: W,
}

impl<W: Wait> Barrier<W> {
    fn meet(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 < MEMBERS {
            return self.how.wait(&self.phase, phase);
        }
        self.over.store(u32::from(clock::now_ns() >= UNTIL_NS), Ordering::Relaxed);
        self.arrived.store(0, Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::AcqRel);
        self.how.changed(&self.phase);
    }
}

/// How many phases per second the slowest of some gangs reaches on `here`.
pub fn phases_per_s<W: Wait>(seed: u64, gangs: u32) -> u64 {
    let here = Machine::known("here").expect("a machine");
    let outcome = run(&here, seed, move || {
        let (mut all, mut chance) = (Vec::new(), Chance::new(seed));
        for _ in 0..gangs {
            let barrier = Arc::new(Barrier::<W>::default());
            for member in 0..MEMBERS {
                let barrier = Arc::clone(&barrier);
                let starts_ns = chance.below(10_000_000);
                all.push(thread::spawn(move || {
                    let mut phases = 0u64;
                    thread::sleep_ns(starts_ns);
                    while barrier.over.load(Ordering::Relaxed) == 0 {
                        cpu::work(15_000 + 7_000 * u64::from(member));
                        barrier.meet();
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
