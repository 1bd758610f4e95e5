//! The victims of busy waiting, in small. One gang alone wants to spin; beside a second one on the
//! same CPUs spinning makes both slow, and sleeping makes both fast. The model must show that, or
//! nothing that it says about waiting is worth anything.

// What is shared with the tests of manx-sim calls the platform by this name.
extern crate platform_sim as platform;

#[path = "common/gang.rs"]
mod gang;

use gang::{Wait, phases_per_s};
use platform_sim::atomic::{AtomicU32, Ordering};
use platform_sim::memory::Allocator;
use platform_sim::{cpu, futex};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Looks as often as this, then sleeps. libgomp looks 300,000 times.
#[derive(Default)]
struct Spins<const LOOKS: u32> {
    asleep: AtomicU32,
}

impl<const LOOKS: u32> Wait for Spins<LOOKS> {
    fn wait(&self, word: &AtomicU32, phase: u32) {
        for _ in 0..LOOKS {
            if word.load(Ordering::Acquire) != phase {
                return;
            }
            cpu::pause();
        }
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while word.load(Ordering::SeqCst) == phase {
            futex::wait(word, phase);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    fn changed(&self, word: &AtomicU32) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            futex::wake_all(word);
        }
    }
}

#[test]
fn spinning_is_right_alone_and_may_ruin_a_pair() {
    let (mut ruined, mut lucky) = (0, 0);
    for seed in 0..6 {
        let [spins, sleeps] = [phases_per_s::<Spins<300_000>>(seed, 1), phases_per_s::<Spins<0>>(seed, 1)];
        assert!(spins > sleeps, "alone, seed {seed}: {spins} spinning, {sleeps} sleeping");
        let [spins, sleeps] = [phases_per_s::<Spins<300_000>>(seed, 2), phases_per_s::<Spins<0>>(seed, 2)];
        assert!(sleeps > 10_000, "a pair, seed {seed}: {sleeps} sleeping");
        println!("a pair, seed {seed}: {spins} phases/s spinning, {sleeps} sleeping");
        // Each phase takes a slice, or none does: both states last.
        ruined += u32::from(spins < sleeps / 50);
        lucky += u32::from(spins > sleeps / 2);
    }
    assert!(ruined > 0 && ruined + lucky == 6, "{ruined} in lock-step, {lucky} not");
}
