//! Rayon's pool and tokio's runtime with Manx's gates: as many workers as the CPU budget has whole
//! CPUs, the others parked.

use super::{Executor, no_thread, rayon, tokio};
use ::rayon::ThreadPool;
use ::tokio::runtime::Runtime;
use manx::pool::gate::Follower;
use manx::pool::gate::rayon::Gated;
use manx::pool::gate::tokio::TokioGate;

/// Rayon's. What follows the budget ends before the pool does.
pub(super) struct Rayon {
    _follower: Follower,
    pool: Gated,
}

impl Rayon {
    pub(super) fn new(threads: usize) -> Result<Rayon, String> {
        let pool = Gated::build(rayon::builder(threads)).map_err(no_thread)?;
        Ok(Rayon { _follower: pool.follow_budget().map_err(no_thread)?, pool })
    }
}

impl Executor for Rayon {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        ThreadPool::spawn(&self.pool, job);
    }
}

/// Tokio's. The gate opens before the runtime ends.
pub(super) struct Tokio {
    _follower: Follower,
    _gate: TokioGate,
    runtime: Runtime,
}

impl Tokio {
    pub(super) fn new(threads: usize) -> Result<Tokio, String> {
        let runtime = tokio::new(threads)?;
        let gate = TokioGate::new(runtime.handle());
        Ok(Tokio { _follower: gate.follow_budget().map_err(no_thread)?, _gate: gate, runtime })
    }
}

impl Executor for Tokio {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.runtime.execute(job);
    }
}
