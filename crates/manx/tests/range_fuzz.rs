//! Programs of calls of the default range lock, made of random bytes, against a list of what is
//! held.
//!
//! What bytes mean is in [`program`]. Here they come from two sources: proptest, which makes what
//! fails shorter, and a plain generator with a seed for long runs. With `MANX_FULL` set the second
//! runs for a minute; a failure prints its seed, and `MANX_RANGE_SEED=…` runs that one alone.

#[path = "range_fuzz/program.rs"]
mod program;

use fastrand::Rng;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable with the seed of the one program that is to be run again.
const SEED: &str = "MANX_RANGE_SEED";

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        max_shrink_iters: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn bytes_are_programs_that_hold_what_the_model_holds(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        program::run(&bytes);
    }
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Rng::with_seed(seed);
    (0..8 * random.usize(19..219)).map(|_| random.u8(..)).collect()
}

fn run(seed: u64) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| program::run(&bytes(seed)))) {
        eprintln!(
            "this program failed; to run it again:\n\n{SEED}={seed} cargo test -p manx --test range_fuzz random_programs\n"
        );
        resume_unwind(panic);
    }
}

#[test]
fn random_programs_hold_what_the_model_holds() {
    if let Ok(seed) = std::env::var(SEED) {
        return run(seed.parse().expect("a seed is a number, as a failure printed it"));
    }
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let programs = if testing::full() { u64::MAX } else { 2_000 };
    let began = Instant::now();
    let mut run_so_far = 0;
    while run_so_far < programs && began.elapsed() < Duration::from_secs(60) {
        run(first.wrapping_add(run_so_far));
        run_so_far += 1;
    }
    assert!(run_so_far > 0);
}

/// A program that failed once.
#[test]
fn programs_that_failed_once_do_not_fail_again() {
    // A set that needs the heap was never taken: a lock of one slot, and twelve points at once.
    let mut set = vec![0, 3, 11];
    (0..12).for_each(|key| set.extend([3, key * 2, 0]));
    program::run(&set);
}
