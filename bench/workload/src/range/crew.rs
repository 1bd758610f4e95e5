//! Threads that do the same thing again and again for a time: warm-up, measured time, end. They
//! have a CPU each if there are as many CPUs; otherwise the kernel places them.
//!
//! Invariant: an operation is counted if it began in the measured time. What a thread counts is its
//! own until it is joined.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::asl::run::stay_on;

const WARM_UP: u8 = 0;
const MEASURE: u8 = 1;
const OVER: u8 = 2;
/// The warm-up takes the measured time, divided by this.
const WARM_UP_PART: u32 = 5;

/// What threads see of the course of a run.
pub(super) struct Course {
    phase: AtomicU8,
    ready: Barrier,
}

impl Course {
    /// Waits until all threads are there. Each thread calls it once, after its preparations.
    pub(super) fn begin(&self) {
        self.ready.wait();
    }

    /// Whether the next operation counts; `None` when the run is over.
    pub(super) fn next(&self) -> Option<bool> {
        // Relaxed: threads read nothing else by it.
        match self.phase.load(Ordering::Relaxed) {
            OVER => None,
            phase => Some(phase == MEASURE),
        }
    }
}

/// What came of a crew.
pub(super) struct Outcome<R> {
    /// What each thread returned.
    pub(super) records: Vec<R>,
    /// The measured time.
    pub(super) elapsed: Duration,
}

/// Lets `threads` threads work for `time`, after a warm-up.
///
/// # Errors
/// The first error of a thread, or that one panicked. A thread that fails must have called
/// [`Course::begin`] before.
pub(super) fn run<R: Send>(
    threads: usize,
    time: Duration,
    work: impl Fn(usize, &Course) -> Result<R, String> + Sync,
) -> Result<Outcome<R>, String> {
    let course = Course { phase: AtomicU8::new(WARM_UP), ready: Barrier::new(threads + 1) };
    thread::scope(|scope| {
        let (course, work) = (&course, &work);
        let cpus = crate::machine::cpus();
        let place = |index: usize| (threads <= cpus.len()).then(|| cpus[index]);
        let threads: Vec<_> = (0..threads)
            .map(|index| {
                let cpu = place(index);
                scope.spawn(move || {
                    let placed = cpu.map_or(Ok(()), stay_on);
                    let record = work(index, course);
                    placed.and(record)
                })
            })
            .collect();
        course.ready.wait();
        thread::sleep(time / WARM_UP_PART);
        course.phase.store(MEASURE, Ordering::Relaxed);
        let begun = Instant::now();
        thread::sleep(time);
        course.phase.store(OVER, Ordering::Relaxed);
        let elapsed = begun.elapsed();
        let panicked = |_| "a thread panicked".to_owned();
        let records = threads.into_iter().map(|thread| thread.join().map_err(panicked)?);
        Ok(Outcome { records: records.collect::<Result<_, String>>()?, elapsed })
    })
}

/// The slowest one's part of all, times their number; 1 where all are alike, and 0 if nothing was
/// done.
pub(super) fn slowest_share(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let (threads, sum) = (counts.clone().count() as f64, counts.clone().sum::<u64>() as f64);
    if sum == 0.0 { 0.0 } else { counts.min().unwrap_or(0) as f64 * threads / sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_works_and_errors_come_back() {
        let time = Duration::from_millis(20);
        let counts = run(3, time, |index, course| {
            course.begin();
            let mut counted = 0u64;
            while let Some(counts) = course.next() {
                counted += u64::from(counts);
                thread::yield_now();
            }
            Ok((index, counted))
        });
        let counts = counts.unwrap();
        assert!(counts.elapsed >= time);
        assert!(counts.records.iter().map(|(index, _)| *index).eq(0..3));
        let failed = run(2, time, |index, course| {
            course.begin();
            if index == 1 { Err("broken".to_owned()) } else { Ok(()) }
        });
        assert_eq!(failed.err().as_deref(), Some("broken"));
    }

    #[test]
    fn the_slowest_of_equals_has_its_share_and_of_none_nothing() {
        assert_eq!(slowest_share([5, 5, 5].into_iter()), 1.0);
        assert_eq!(slowest_share([0, 6].into_iter()), 0.0);
        assert_eq!(slowest_share([1, 3].into_iter()), 0.5);
        assert_eq!(slowest_share([0, 0].into_iter()), 0.0);
    }
}
