//! The work: `fib(30)` by its definition, some two milliseconds of nothing but CPU; and how much of
//! it this machine does.

use super::spec::Lock;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The index of the Fibonacci number, as in the paper.
const NUMBER: u32 = 30;
/// Its value.
const VALUE: u32 = 832_040;

/// The number by its definition.
fn fib(number: u32) -> u32 {
    if number < 2 { number } else { fib(number - 1) + fib(number - 2) }
}

/// Computes it once. Neither the number nor the sum can be known before.
pub fn compute() {
    assert_eq!(fib(black_box(NUMBER)), VALUE, "the computation is wrong");
}

/// A computation under the one lock of a process.
pub enum Work {
    /// No lock.
    Plain,
    /// The standard library's.
    Std(std::sync::Mutex<()>),
    /// parking_lot's.
    ParkingLot(parking_lot::Mutex<()>),
    /// Manx's.
    Manx(manx::lock::Mutex<()>),
}

impl Work {
    /// Under a new lock of this kind.
    pub fn new(lock: Lock) -> Work {
        match lock {
            Lock::None => Work::Plain,
            Lock::Std => Work::Std(std::sync::Mutex::new(())),
            Lock::ParkingLot => Work::ParkingLot(parking_lot::Mutex::new(())),
            Lock::Manx => Work::Manx(manx::lock::Mutex::new(())),
        }
    }

    /// Takes the lock and computes.
    pub fn run(&self) {
        match self {
            Work::Plain => compute(),
            Work::Std(mutex) => {
                // A poisoned lock excludes as any other, and there is no state that it could have
                // broken.
                let _held = mutex.lock();
                compute();
            }
            Work::ParkingLot(mutex) => {
                let _held = mutex.lock();
                compute();
            }
            Work::Manx(mutex) => {
                let _held = mutex.lock();
                compute();
            }
        }
    }
}

/// The capacity of this machine while no other program runs.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Computations a second by a thread on each CPU
    pub jobs_per_s: f64,
    /// The time of one computation then
    pub job_ns: f64,
}

/// Measures the capacity with a thread for each CPU, for `time`.
pub fn capacity(cpus: usize, time: Duration) -> Capacity {
    let (over, jobs) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    compute();
                    jobs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        // Relaxed: it orders nothing, and the end of the scope orders the count.
        over.store(true, Ordering::Relaxed);
    });
    let (jobs, elapsed) = (jobs.into_inner().max(1) as f64, begun.elapsed());
    let jobs_per_s = jobs / elapsed.as_secs_f64();
    Capacity { jobs_per_s, job_ns: cpus as f64 * 1e9 / jobs_per_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_right_under_every_lock() {
        for lock in [Lock::None, Lock::Std, Lock::ParkingLot, Lock::Manx] {
            Work::new(lock).run();
        }
    }

    #[test]
    fn capacity_is_that_of_all_threads() {
        let found = capacity(2, Duration::from_millis(1));
        assert!(found.jobs_per_s > 0.0);
        assert!((found.job_ns * found.jobs_per_s - 2e9).abs() < 1.0);
    }
}
