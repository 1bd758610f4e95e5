//! Near or far: how long a cache line takes between the CPUs, which in a virtual machine changes
//! under way.
//!
//! Two threads on different CPUs pass a number back and forth. The shortest of many batches is
//! taken: what else runs on the CPUs can only make a batch longer.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use workload::machine::stay_on;

/// From this round trip on the CPUs are far from each other.
pub const FAR_NS: f64 = 150.0;
/// Round trips in a batch.
const BATCH: u64 = 25;
/// Batches at most.
const BATCHES: usize = 60;
/// When to stop in any case.
const LIMIT: Duration = Duration::from_millis(30);
/// The number that ends the exchange.
const END: u64 = u64::MAX;

/// The round trip of a cache line between two CPUs in nanoseconds.
///
/// # Errors
/// If the threads cannot be placed there.
pub fn round_trip_ns(first: usize, second: usize) -> Result<f64, String> {
    let ball = AtomicU64::new(0);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let placed = stay_on(second);
            loop {
                match ball.load(Ordering::Relaxed) {
                    END => return placed,
                    odd if odd % 2 == 1 => ball.store(odd + 1, Ordering::Relaxed),
                    _ => spin_loop(),
                }
            }
        });
        let player = scope.spawn(|| {
            let placed = stay_on(first);
            let (zero, mut at, mut shortest) = (Instant::now(), 0, f64::INFINITY);
            for _ in 0..BATCHES {
                let begin = Instant::now();
                for _ in 0..BATCH {
                    ball.store(at + 1, Ordering::Relaxed);
                    at += 2;
                    while ball.load(Ordering::Relaxed) != at {
                        spin_loop();
                    }
                }
                shortest = shortest.min(begin.elapsed().as_nanos() as f64 / BATCH as f64);
                if zero.elapsed() > LIMIT {
                    break;
                }
            }
            ball.store(END, Ordering::Relaxed);
            placed.map(|()| shortest)
        });
        echo.join().map_err(|_| "the echo panicked")??;
        player.join().map_err(|_| "the prober panicked")?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::machine::cpus;

    #[test]
    fn a_line_takes_some_time() {
        let cpus = cpus();
        let ns = round_trip_ns(cpus[0], *cpus.last().unwrap()).unwrap();
        assert!(ns > 0.0 && ns.is_finite(), "{ns}");
    }
}
