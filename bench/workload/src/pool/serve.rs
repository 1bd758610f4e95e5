//! An open loop: a thread of the process hands jobs to its pool when they are due, whether or not
//! earlier jobs have ended.
//!
//! As in the paper that `pool.rs` names (section 2, figure 1): a job is stamped when it is put into
//! the queue, when a worker begins it, and when it has ended. *Queue latency* is from the first to
//! the second, *service latency* from the second to the third, *total latency* the whole. The
//! paper's frontend is a thread of the same process, and so is this one. The frontend's own
//! lateness is recorded too: the time from the moment at which a job was due to its first stamp.
//! With more threads than CPUs the frontend also has to wait for a CPU.
//!
//! Every job has a place for its stamps before anything begins, so recording is three stores and no
//! lock.
//!
//! Invariants:
//! 1. A job that has not begun when the time and the extra time (`drain`) are over counts as
//!    unfinished, and its work is left out.
//! 2. A stamp is written once: the first by the frontend, the others by the worker that runs the
//!    job. `left` counts the jobs that no worker has finished or dropped; a thread that reads 0
//!    there reads all stamps.

use super::executor::{Executor, Use};
use super::spec::{Load, Lock, Outcome};
use super::usage::Usage;
use super::work::Work;
use report::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The interval at which the main thread checks whether jobs are left.
const LOOK: Duration = Duration::from_millis(1);
/// A job that no worker has run this time after the end is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stamps of a job, in nanoseconds from the start; 0 for a stamp that is not yet written.
#[derive(Default)]
struct Job {
    pushed_ns: AtomicU64,
    begun_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// How many times a worker took the job.
    ran: AtomicUsize,
}

struct OpenLoop {
    jobs: Box<[Job]>,
    start: Instant,
    over: AtomicBool,
    left: AtomicUsize,
    work: Work,
}

impl OpenLoop {
    fn now_ns(&self) -> u64 {
        // 0 means that there is no stamp.
        (self.start.elapsed().as_nanos() as u64).max(1)
    }

    /// Runs a job on a worker. All stores are relaxed: the decrement of `left` releases them
    /// (Invariant 2).
    fn run(&self, index: usize) {
        let job = &self.jobs[index];
        job.ran.fetch_add(1, Ordering::Relaxed);
        // Relaxed: one job more or less at the end does not matter.
        if !self.over.load(Ordering::Relaxed) {
            job.begun_ns.store(self.now_ns(), Ordering::Relaxed);
            self.work.run();
            job.ended_ns.store(self.now_ns(), Ordering::Relaxed);
        }
        self.left.fetch_sub(1, Ordering::Release);
    }
}

impl Load {
    /// When jobs are due, in nanoseconds from the start: evenly spaced or Poisson. Jobs come for
    /// `pause`, then none for `pause`, and so on; a job that is due in a pause is dropped, not
    /// postponed.
    ///
    /// Each process has its own phase, and with it its own random numbers, the same in each run.
    /// Neighbours have different phases, so that their jobs do not come at the same moments.
    fn due_times_ns(&self) -> Vec<u64> {
        let gap_ns = 1e9 / self.rate_per_s;
        let mut random = fastrand::Rng::with_seed((self.phase * 1e9) as u64);
        // Exponentially distributed, with mean 1. `f64()` is below 1: the logarithm is never of 0.
        let mut exponential = || -(1.0 - random.f64()).ln();
        let (mut at_ns, mut due) = (gap_ns * self.phase, Vec::new());
        while at_ns < self.time.as_nanos() as f64 {
            let jobs_come =
                self.pause.is_none_or(|pause| ((at_ns / pause.as_nanos() as f64) as u64).is_multiple_of(2));
            if jobs_come {
                due.push(at_ns as u64);
            }
            at_ns += if self.poisson { gap_ns * exponential() } else { gap_ns };
        }
        due
    }
}

/// Waits for the common signal, then serves.
pub(super) struct Serve<'a, S: FnOnce()> {
    pub load: &'a Load,
    pub lock: Lock,
    pub start: S,
}

impl<S: FnOnce()> Use for Serve<'_, S> {
    type Output = Result<Outcome, String>;

    fn with<E: Executor>(self, executor: E) -> Self::Output {
        let due_ns = self.load.due_times_ns();
        let jobs: Box<[Job]> = due_ns.iter().map(|_| Job::default()).collect();
        let work = Work::new(self.lock);
        (self.start)();
        let before = Usage::now();
        let start = Instant::now();
        let (over, left) = (AtomicBool::new(false), AtomicUsize::new(0));
        let open_loop = Arc::new(OpenLoop { jobs, start, over, left, work });
        let end = start + self.load.time;
        for (index, &at_ns) in due_ns.iter().enumerate() {
            sleep_until(start + Duration::from_nanos(at_ns));
            if Instant::now() >= end {
                break;
            }
            // Count and stamp the job before the pool has it: a worker could run it at once.
            open_loop.left.fetch_add(1, Ordering::Relaxed);
            open_loop.jobs[index].pushed_ns.store(open_loop.now_ns(), Ordering::Relaxed);
            let open_loop = open_loop.clone();
            executor.execute(move || open_loop.run(index));
        }
        sleep_until(end);
        let usage = Usage::now().since(before);
        open_loop.settle(end + self.load.drain)?;
        open_loop.outcome(&due_ns, self.load.time, usage)
    }
}

fn sleep_until(moment: Instant) {
    loop {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left);
    }
}

impl OpenLoop {
    /// Lets waiting jobs begin until `until`, and then waits for the jobs that run.
    fn settle(&self, until: Instant) -> Result<(), String> {
        // Acquire: with the decrements of `left` all stamps are seen (Invariant 2).
        while self.left.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        self.over.store(true, Ordering::Relaxed);
        let limit = Instant::now() + PATIENCE;
        while self.left.load(Ordering::Acquire) > 0 {
            if Instant::now() > limit {
                let left = self.left.load(Ordering::Relaxed);
                return Err(format!("{left} jobs were lost: the pool never ran them"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn outcome(&self, due_ns: &[u64], time: Duration, usage: Usage) -> Result<Outcome, String> {
        let [mut queue, mut service, mut total, mut late] = std::array::from_fn(|_| Histogram::new());
        let (mut offered, mut done, mut unfinished) = (0, 0, 0);
        let time_ns = time.as_nanos() as u64;
        for (job, &due_ns) in self.jobs.iter().zip(due_ns) {
            let [pushed_ns, begun_ns, ended_ns] =
                [&job.pushed_ns, &job.begun_ns, &job.ended_ns].map(|stamp| stamp.load(Ordering::Relaxed));
            match (pushed_ns, job.ran.load(Ordering::Relaxed)) {
                (0, 0) => continue,
                (_, 1) => {}
                (_, times) => return Err(format!("a job ran {times} times")),
            }
            offered += 1;
            late.record(pushed_ns.saturating_sub(due_ns));
            if ended_ns == 0 {
                unfinished += 1;
                continue;
            }
            done += u64::from(ended_ns <= time_ns);
            queue.record(begun_ns.saturating_sub(pushed_ns));
            service.record(ended_ns.saturating_sub(begun_ns));
            total.record(ended_ns.saturating_sub(pushed_ns));
        }
        let histograms = [("queue", queue), ("service", service), ("total", total), ("late", late)];
        let counts = [("offered", offered), ("done", done), ("unfinished", unfinished)];
        let counts = counts.map(|(name, count)| (name, count as f64));
        Ok(Outcome::of(histograms, counts.into_iter().chain(usage.values())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::executor;
    use super::super::spec::{Kind, Shape};
    use super::*;

    fn load() -> Load {
        let (time, drain) = (Duration::from_millis(200), Duration::from_secs(600));
        Load { rate_per_s: 50.0, poisson: false, phase: 0.5, pause: None, time, drain }
    }

    #[test]
    fn jobs_are_due_at_equal_distances_or_at_random_at_the_same_rate() {
        let uniform = load().due_times_ns();
        let expected: Vec<u64> = (0..10).map(|at| 10_000_000 + at * 20_000_000).collect();
        assert_eq!(uniform, expected);
        let many = Load { rate_per_s: 1e5, poisson: true, time: Duration::from_secs(1), ..load() };
        let random = many.due_times_ns();
        // Poisson's deviation of 100,000 is 316.
        assert!((98_000..102_000).contains(&random.len()), "{}", random.len());
        let gaps: Vec<u64> = random.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let short = gaps.iter().filter(|&&gap| gap < 5_000).count() as f64 / gaps.len() as f64;
        assert!((0.37..0.42).contains(&short), "1 - exp(-1/2) of all gaps are under half the mean: {short}");
    }

    #[test]
    fn no_jobs_are_due_in_pauses() {
        let pause = Duration::from_millis(50);
        let due = Load { pause: Some(pause), ..load() }.due_times_ns();
        assert_eq!(due, [10_000_000, 30_000_000, 110_000_000, 130_000_000]);
    }

    #[test]
    fn every_job_is_measured_once_and_the_parts_add_up() {
        let mut started = false;
        let serve = Serve { load: &load(), lock: Lock::Std, start: || started = true };
        let shape = Shape { threads: 2, ..Shape::default() };
        let outcome = executor::with(Kind::Ignorant, &shape, serve).unwrap().unwrap();
        assert!(started);
        let (offered, unfinished) = (outcome.value("offered"), outcome.value("unfinished"));
        assert!((1.0..=10.0).contains(&offered), "{offered}");
        assert_eq!(unfinished, 0.0);
        for name in ["queue", "service", "total", "late"] {
            assert_eq!(outcome.histograms[name].count() as f64, offered, "{name}");
        }
        let mean = |name: &str| outcome.histograms[name].mean_ns();
        assert!((mean("queue") + mean("service") - mean("total")).abs() <= 1.0);
        assert!(outcome.value("cpu_ns") > 0.0, "the process' clock never goes back");
    }

    #[test]
    fn jobs_that_wait_at_the_end_are_unfinished() {
        let load = Load { rate_per_s: 1e5, time: Duration::from_millis(20), drain: Duration::ZERO, ..load() };
        let serve = || Serve { load: &load, lock: Lock::None, start: || () };
        let run = || executor::with(Kind::Ignorant, &Shape::default(), serve()).unwrap().unwrap();
        // On a busy machine a run may be over before its jobs have come.
        let outcome = (0..100).map(|_| run()).find(|outcome| outcome.value("unfinished") > 0.0).unwrap();
        let recorded = outcome.histograms["total"].count() as f64;
        assert_eq!(outcome.value("offered"), recorded + outcome.value("unfinished"));
        assert!(outcome.value("done") <= recorded);
    }

    /// A pool without threads.
    struct AtOnce;

    impl Executor for AtOnce {
        fn execute(&self, job: impl FnOnce() + Send + 'static) {
            job();
        }
    }

    #[test]
    fn a_job_that_runs_twice_is_an_error() {
        let load = load();
        let serve = Serve { load: &load, lock: Lock::None, start: || () };
        assert!(serve.with(AtOnce).is_ok());
        let open_loop = OpenLoop {
            jobs: [Job::default()].into(),
            start: Instant::now(),
            over: AtomicBool::new(true),
            left: AtomicUsize::new(2),
            work: Work::new(Lock::None),
        };
        open_loop.run(0);
        open_loop.run(0);
        let error = open_loop.outcome(&[0], load.time, Usage::default()).unwrap_err();
        assert_eq!(error, "a job ran 2 times");
    }
}
