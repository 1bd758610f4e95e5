//! The cure of busy waiting, in small: gangs of threads that wait for each other by the default
//! policy of `manx::wait`. `platform-sim` has the same gangs when they spin: beside a second one,
//! each phase takes a slice of the scheduler in about half of the runs.

#[path = "../../platform/tests/common/gang.rs"]
mod gang;

use gang::{Wait, phases_per_s};
use manx_sim::wait::{Adaptive, Policy};
use platform::atomic::{AtomicU32, Ordering};
use platform::memory::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[derive(Default)]
struct Adapts;

impl Wait for Adapts {
    fn wait(&self, word: &AtomicU32, phase: u32) {
        Adaptive::DEFAULT.until(|| word.load(Ordering::Acquire) != phase);
    }
}

#[test]
fn a_gang_that_waits_adaptively_is_fast_alone_and_never_ruined_beside_another() {
    for seed in 0..6 {
        let (alone, beside) = (phases_per_s::<Adapts>(seed, 1), phases_per_s::<Adapts>(seed, 2));
        println!("seed {seed}: {alone} phases/s alone, {beside} beside another gang");
        // A phase takes 22 µs on a CPU: 45,000 a second alone, half of that beside another gang.
        assert!(alone > 35_000, "seed {seed}: {alone} alone");
        assert!(beside > 10_000, "seed {seed}: {beside} beside another gang");
    }
}
