//! What runs jobs: one interface over the pools that are compared, one file a kind.
//!
//! A pool is reached by its own type ([`Use`]), so that the measured submission is compiled for
//! each and no call in it is indirect beyond what that pool does itself.

mod channel;
mod friendly;
mod gated;
mod rayon;
mod tokio;

use super::kind::Kind;
use super::spec::Shape;

/// A pool that runs jobs.
pub trait Executor: Send + Sync + 'static {
    /// Hands a job over. It runs once, on a thread of the pool.
    fn execute(&self, job: impl FnOnce() + Send + 'static);
}

/// What is done with a pool once its type is known.
pub trait Use {
    /// What comes of it.
    type Output;
    /// Does it.
    fn with<E: Executor>(self, executor: E) -> Self::Output;
}

/// Makes a pool of this kind and shape, and does it with that.
///
/// # Errors
/// In words, if there can be no such pool.
pub fn with<U: Use>(kind: Kind, shape: &Shape, what: U) -> Result<U::Output, String> {
    Ok(match kind {
        Kind::Ignorant | Kind::Optimal => what.with(channel::Channel::new(shape.threads)?),
        Kind::FriendlyPool => what.with(friendly::share(shape)?),
        Kind::Manx => what.with(friendly::pressure(shape)?),
        Kind::Rayon => what.with(rayon::new(shape.threads)?),
        Kind::Tokio => what.with(tokio::new(shape.threads)?),
        Kind::RayonGate => what.with(gated::Rayon::new(shape.threads)?),
        Kind::TokioGate => what.with(gated::Tokio::new(shape.threads)?),
        Kind::Go => {
            return Err("go: its pool is in a program of its own".into());
        }
    })
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
