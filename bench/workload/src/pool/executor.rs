//! What runs jobs: one interface over the pools that are compared.
//!
//! A pool is reached by its own type ([`Use`]), so that the measured submission is compiled for
//! each and no call in it is indirect beyond what that pool does itself.

use super::spec::{Kind, Shape};
use crossbeam_channel::{Sender, unbounded};
use manx::pool::gate::Follower;
use manx::pool::gate::rayon::Gated;
use manx::pool::gate::tokio::TokioGate;
use manx::pool::{Control, FriendlyPool};
use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::runtime::Runtime;

/// Peers' queues have no bound; an overload of half a minute fits into this one.
const QUEUE_CAPACITY: usize = 1 << 18;

/// A pool that runs jobs.
pub trait Executor: Send + Sync + 'static {
    /// Hands a job over. It runs once, on a thread of the pool.
    fn execute(&self, job: impl FnOnce() + Send + 'static);
}

/// A use of a pool of any type.
pub trait Use {
    /// Its result.
    type Output;
    /// Uses the pool.
    fn with<E: Executor>(self, executor: E) -> Self::Output;
}

/// Makes a pool of this kind and shape, and uses it.
///
/// # Errors
/// If there can be no such pool.
pub fn with<U: Use>(kind: Kind, shape: &Shape, what: U) -> Result<U::Output, String> {
    Ok(match kind {
        Kind::Ignorant | Kind::Optimal => what.with(Channel::new(shape.threads)?),
        Kind::FriendlyPool => what.with(friendly(shape, Control::Share)?),
        Kind::Manx => what.with(friendly(shape, Control::Pressure)?),
        Kind::Rayon => what.with(rayon(shape.threads).build().map_err(no_thread)?),
        Kind::Tokio => what.with(tokio(shape.threads)?),
        Kind::RayonGate => what.with(GatedRayon::new(shape.threads)?),
        Kind::TokioGate => what.with(GatedTokio::new(shape.threads)?),
        Kind::Go => return Err("go: its pool is in a program of its own".into()),
    })
}

type Job = Box<dyn FnOnce() + Send>;

/// The paper's pool that takes no account of neighbours: threads that receive jobs from one
/// unbounded channel. When the pool is dropped, the channel is closed; the threads run the jobs
/// that are left in it, and end.
struct Channel(Sender<Job>);

impl Channel {
    fn new(threads: usize) -> Result<Channel, String> {
        let (jobs, queue) = unbounded::<Job>();
        for index in 0..threads {
            let queue = queue.clone();
            let run = move || queue.iter().for_each(|job| job());
            let worker = std::thread::Builder::new().name(format!("worker-{index}"));
            worker.spawn(run).map_err(no_thread)?;
        }
        Ok(Channel(jobs))
    }
}

impl Executor for Channel {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        // Sending fails only without a receiver, and the workers outlive the pool.
        let _ = self.0.send(Box::new(job));
    }
}

/// Manx's pool. With [`Control::Share`] the paper's formula controls it, which makes it the paper's
/// friendlypool.
fn friendly(shape: &Shape, control: Control) -> Result<FriendlyPool, String> {
    let builder = FriendlyPool::builder().name("manx").num_threads(shape.threads);
    let builder = builder.queue_capacity(QUEUE_CAPACITY).control(control);
    builder.overcommit(shape.overcommit).tick(shape.tick).build().map_err(no_thread)
}

impl Executor for FriendlyPool {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        // This calls the pool's own method of this name. It waits for room in the queue, and
        // fails only while the pool shuts down.
        let taken = FriendlyPool::execute(self, job);
        assert!(taken.is_ok(), "a job was refused");
    }
}

/// Rayon's pool.
fn rayon(threads: usize) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("rayon-{index}"))
}

impl Executor for ThreadPool {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.spawn(job);
    }
}

/// Tokio's runtime of several threads: a job is a task that never waits.
fn tokio(threads: usize) -> Result<Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("tokio")
        .build()
        .map_err(no_thread)
}

impl Executor for Runtime {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.spawn(async move { job() });
    }
}

/// Rayon's pool with Manx's gate: as many workers run as the CPU budget has whole CPUs, and the
/// others are parked. The follower of the budget is dropped before the pool.
struct GatedRayon {
    _follower: Follower,
    pool: Gated,
}

impl GatedRayon {
    fn new(threads: usize) -> Result<GatedRayon, String> {
        let pool = Gated::build(rayon(threads)).map_err(no_thread)?;
        Ok(GatedRayon { _follower: pool.follow_budget().map_err(no_thread)?, pool })
    }
}

impl Executor for GatedRayon {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        ThreadPool::spawn(&self.pool, job);
    }
}

/// Tokio's runtime with Manx's gate. The gate opens before the runtime is dropped.
struct GatedTokio {
    _follower: Follower,
    _gate: TokioGate,
    runtime: Runtime,
}

impl GatedTokio {
    fn new(threads: usize) -> Result<GatedTokio, String> {
        let runtime = tokio(threads)?;
        let gate = TokioGate::new(runtime.handle());
        Ok(GatedTokio { _follower: gate.follow_budget().map_err(no_thread)?, _gate: gate, runtime })
    }
}

impl Executor for GatedTokio {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.runtime.execute(job);
    }
}

/// Why there is no thread, in words.
fn no_thread(error: impl std::fmt::Display) -> String {
    format!("a pool of so many threads cannot be had: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const JOBS: usize = 1000;

    /// Jobs from outside; each submits another from inside.
    struct Chain;

    impl Use for Chain {
        type Output = usize;

        fn with<E: Executor>(self, executor: E) -> usize {
            let (executor, ran) = (Arc::new(executor), Arc::new(AtomicUsize::new(0)));
            for _ in 0..JOBS {
                let (inner, ran) = (executor.clone(), ran.clone());
                executor.execute(move || {
                    let again = ran.clone();
                    inner.execute(move || {
                        again.fetch_add(1, Ordering::Relaxed);
                    });
                    ran.fetch_add(1, Ordering::Relaxed);
                });
            }
            // A job that is lost shows as a test that does not end; a job that runs twice shows in
            // the count.
            while ran.load(Ordering::Relaxed) < 2 * JOBS {
                std::thread::yield_now();
            }
            // No job is left that could still run, and none that could drop the pool on one of its
            // own threads.
            while Arc::strong_count(&executor) > 1 {
                std::thread::yield_now();
            }
            ran.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn every_pool_runs_every_job_once_from_outside_and_from_inside() {
        let shape = Shape { threads: 3, ..Shape::default() };
        for kind in Kind::ALL.iter().copied().filter(|kind| *kind != Kind::Go) {
            assert_eq!(with(kind, &shape, Chain), Ok(2 * JOBS), "{}", kind.name());
        }
        assert!(with(Kind::Go, &shape, Chain).unwrap_err().contains("program of its own"));
    }
}
