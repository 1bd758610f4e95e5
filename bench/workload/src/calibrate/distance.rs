//! How long a cache line takes from one CPU to another.
//!
//! Two threads on two CPUs play ping-pong with one word. Each changes it by a compare-and-exchange
//! as soon as the other one has done so. Between two changes the line goes once from cache to
//! cache, so a round trip is two ways, and half of it is one way with one change in it. A thread
//! that waits repeats its exchange without a pause: it sees the change as early as it can.
//!
//! That is also how the simulator reads the figure: it subtracts a change from it and has the way
//! of the line alone (`lines.rs` of `platform-sim`).

use super::pinned::pair;
use super::samples::{Samples, elapsed_ns};
use crate::error::Error;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

/// Samples of a run.
const BATCHES: usize = 100;
/// Round trips of a sample.
const TRIPS: u32 = 500;

/// No other data is on its line, nor on the one that a prefetcher loads with it.
#[repr(align(256))]
struct Ball(AtomicU32);

impl Ball {
    /// Changes it from `from` to `to` as soon as the other thread has made it `from`.
    fn strike(&self, from: u32, to: u32) {
        // Relaxed: it is the only word.
        while self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_err() {}
    }
}

/// Half of the time of a round trip between two CPUs.
///
/// # Errors
/// If a thread may not run on one of them.
pub fn between(cpus: [usize; 2]) -> Result<Samples, Error> {
    let ball = Ball(AtomicU32::new(0));
    let batch = || {
        let began = platform::clock::ticks();
        for _ in 0..TRIPS {
            ball.strike(0, 1);
        }
        elapsed_ns(began) / f64::from(2 * TRIPS)
    };
    let returned = || (0..=BATCHES as u32 * TRIPS + TRIPS - 1).for_each(|_| ball.strike(1, 0));
    // The first batch waits for the other thread.
    let served = || Samples::of((0..=BATCHES).map(|_| batch()).skip(1));
    pair(cpus, served, returned).map(|(samples, ())| black_box(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_threads_play_to_the_end() {
        let cpus = crate::machine::cpus();
        if cpus.len() < 2 {
            return testing::skip("it takes two CPUs");
        }
        let samples = between([cpus[0], cpus[1]]).unwrap();
        assert_eq!(samples.summary().values["count"], BATCHES as f64);
    }
}
