//! Tokio's runtime of several threads: a job is a task that never waits.

use super::{Executor, no_thread};
use ::tokio::runtime::{Builder, Runtime};

pub(super) fn new(threads: usize) -> Result<Runtime, String> {
    Builder::new_multi_thread().worker_threads(threads).thread_name("tokio").build().map_err(no_thread)
}

impl Executor for Runtime {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.spawn(async move { job() });
    }
}
