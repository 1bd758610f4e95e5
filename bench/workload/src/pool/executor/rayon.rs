//! Rayon's pool, by `spawn`.

use super::{Executor, no_thread};
use ::rayon::{ThreadPool, ThreadPoolBuilder};

pub(super) fn new(threads: usize) -> Result<ThreadPool, String> {
    builder(threads).build().map_err(no_thread)
}

pub(super) fn builder(threads: usize) -> ThreadPoolBuilder {
    ThreadPoolBuilder::new().num_threads(threads).thread_name(|index| format!("rayon-{index}"))
}

impl Executor for ThreadPool {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.spawn(job);
    }
}
