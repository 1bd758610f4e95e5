//! The ramp-up of a pool after a rest, the cost of an idle pool, and the cost of an empty job.

use super::executor::{Executor, Use};
use super::spec::Outcome;
use super::usage::Usage;
use report::{Histogram, median};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// After this time the jobs of a burst end, even if some have not begun: the ramp-up takes at least
/// that long.
const RAMP_UP_MAX: Duration = Duration::from_secs(3);
/// A job that has not ended this time after its submission is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bursts: after a rest, as many jobs at once as there are threads. Each job ends when all have
/// begun. So a worker cannot run two of them, and the time until the last job begins is the time
/// until all workers run.
pub(super) struct Bursts {
    pub times: u32,
    pub rest: Duration,
    pub threads: usize,
}

/// A burst while its jobs run.
struct Burst {
    begun: AtomicUsize,
    over: AtomicBool,
    /// When the last one began, from the first submission.
    last_ns: AtomicU64,
    start: Instant,
}

impl Burst {
    fn job(&self, threads: usize) {
        self.last_ns.fetch_max(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        // Release, and acquire below: a thread that sees all begun sees their times.
        self.begun.fetch_add(1, Ordering::AcqRel);
        // It spins, because pools that are controlled by CPU time must see some. There is a CPU for
        // each thread.
        while self.begun.load(Ordering::Acquire) < threads && !self.over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

impl Use for Bursts {
    type Output = Result<Outcome, String>;

    fn with<E: Executor>(self, executor: E) -> Self::Output {
        let mut ramp = Histogram::new();
        let mut incomplete = 0;
        for _ in 0..self.times {
            std::thread::sleep(self.rest);
            let (ended, ends) = mpsc::channel();
            let burst = Arc::new(Burst {
                begun: AtomicUsize::new(0),
                over: AtomicBool::new(false),
                last_ns: AtomicU64::new(0),
                start: Instant::now(),
            });
            for _ in 0..self.threads {
                let (burst, ended, threads) = (burst.clone(), ended.clone(), self.threads);
                executor.execute(move || {
                    burst.job(threads);
                    // Without a receiver the burst has failed already.
                    let _ = ended.send(());
                });
            }
            let limit = burst.start + RAMP_UP_MAX;
            for _ in 0..self.threads {
                let left = limit.saturating_duration_since(Instant::now());
                if ends.recv_timeout(left).is_err() {
                    burst.over.store(true, Ordering::Relaxed);
                    ends.recv_timeout(PATIENCE).map_err(|_| "a job of a burst was lost")?;
                }
            }
            incomplete += u32::from(burst.over.load(Ordering::Relaxed));
            ramp.record(burst.last_ns.load(Ordering::Relaxed));
        }
        Ok(Outcome::of([("ramp", ramp)], [("incomplete", f64::from(incomplete))]))
    }
}

/// A pool that has run one job and gets no other job.
pub(super) struct Idle {
    pub time: Duration,
}

impl Use for Idle {
    type Output = Result<Outcome, String>;

    fn with<E: Executor>(self, executor: E) -> Self::Output {
        let (ended, end) = mpsc::channel();
        executor.execute(move || {
            let _ = ended.send(());
        });
        end.recv_timeout(PATIENCE).map_err(|_| "a job was lost")?;
        // The pool may still be busy just after the job.
        std::thread::sleep(self.time / 5);
        let (before, begun) = (Usage::now(), Instant::now());
        std::thread::sleep(self.time);
        let (usage, elapsed) = (Usage::now().since(before), begun.elapsed());
        // Without the first thread, which is not the pool's.
        let idle = [
            ("idle_cpu_percent", 100.0 * usage.pool_ns / elapsed.as_nanos() as f64),
            ("idle_wakeups_per_s", usage.sleeps / elapsed.as_secs_f64()),
        ];
        Ok(Outcome::of([], usage.values().into_iter().chain(idle)))
    }
}

/// Batches of jobs that do nothing.
pub(super) struct Submissions {
    pub jobs: u32,
    pub batches: u32,
    pub inside: bool,
}

/// The number of jobs of a batch that have not ended, and the thread that waits for them.
struct Batch {
    left: AtomicU64,
    waiter: std::thread::Thread,
}

impl Batch {
    fn done(&self) {
        // Release: all that the job did is before the last one's end. The waiter's acquire pairs
        // with it.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }
}

impl Use for Submissions {
    type Output = Result<Outcome, String>;

    fn with<E: Executor>(self, executor: E) -> Self::Output {
        let executor = Arc::new(executor);
        let mut per_job_ns = Vec::new();
        for number in 0..=self.batches {
            let batch = Arc::new(Batch {
                left: AtomicU64::new(u64::from(self.jobs)),
                waiter: std::thread::current(),
            });
            let begun = Instant::now();
            if self.inside {
                let (inner, batch, jobs) = (executor.clone(), batch.clone(), self.jobs);
                executor.execute(move || submit(&*inner, &batch, jobs));
            } else {
                submit(&*executor, &batch, self.jobs);
            }
            let limit = begun + PATIENCE;
            while batch.left.load(Ordering::Acquire) > 0 {
                if Instant::now() > limit {
                    return Err(format!("{} jobs were lost", batch.left.load(Ordering::Relaxed)));
                }
                std::thread::park_timeout(PATIENCE);
            }
            // The first batch is a warm-up: it allocates memory and starts threads.
            if number > 0 {
                per_job_ns.push(begun.elapsed().as_nanos() as f64 / f64::from(self.jobs));
            }
        }
        // Some pools cannot be dropped by a thread of their own: wait until the last job has
        // dropped its reference.
        while Arc::strong_count(&executor) > 1 {
            std::thread::yield_now();
        }
        Ok(Outcome::of([], [("ns_per_job", median(&per_job_ns))]))
    }
}

fn submit<E: Executor>(executor: &E, batch: &Arc<Batch>, jobs: u32) {
    for _ in 0..jobs {
        let batch = batch.clone();
        executor.execute(move || batch.done());
    }
}

#[cfg(test)]
mod tests {
    use super::super::executor;
    use super::super::spec::{Kind, Shape};
    use super::*;

    fn with<U: Use<Output = Result<Outcome, String>>>(kind: Kind, threads: usize, what: U) -> Outcome {
        executor::with(kind, &Shape { threads, ..Shape::default() }, what).unwrap().unwrap()
    }

    #[test]
    fn a_burst_is_over_when_all_workers_run() {
        let bursts = || Bursts { times: 3, rest: Duration::from_millis(1), threads: 3 };
        for kind in [Kind::Ignorant, Kind::Rayon, Kind::Tokio] {
            let outcome = with(kind, 3, bursts());
            assert_eq!(outcome.histograms["ramp"].count(), 3);
            assert_eq!(outcome.value("incomplete"), 0.0, "{}", kind.name());
        }
    }

    #[test]
    fn too_few_workers_are_seen() {
        let outcome = with(Kind::Ignorant, 1, Bursts { times: 1, rest: Duration::ZERO, threads: 2 });
        assert_eq!(outcome.value("incomplete"), 1.0);
        assert!(outcome.histograms["ramp"].summary().max_ns >= RAMP_UP_MAX.as_nanos() as u64);
    }

    #[test]
    fn an_idle_pool_has_its_figures() {
        // The figures are of the whole process, in which other tests run.
        let outcome = with(Kind::Ignorant, 2, Idle { time: Duration::from_millis(5) });
        for figure in ["idle_cpu_percent", "idle_wakeups_per_s"] {
            assert!(outcome.values.contains_key(figure));
        }
    }

    #[test]
    fn jobs_from_both_sides_have_a_price() {
        for inside in [false, true] {
            let outcome = with(Kind::Rayon, 2, Submissions { jobs: 1000, batches: 3, inside });
            assert!(outcome.value("ns_per_job") > 0.0);
        }
    }
}
