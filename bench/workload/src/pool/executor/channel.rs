//! As many threads as there are CPUs, all at one unbounded channel: the pool that knows of no
//! neighbour, as in the paper.
//!
//! Its threads end when the channel is closed, which is when the pool is dropped, after what is in
//! it.

use super::{Executor, no_thread};
use crossbeam_channel::{Sender, unbounded};

type Job = Box<dyn FnOnce() + Send>;

/// The pool: the channel's end where jobs go in.
pub(super) struct Channel {
    jobs: Sender<Job>,
}

impl Channel {
    pub(super) fn new(threads: usize) -> Result<Channel, String> {
        let (jobs, queue) = unbounded::<Job>();
        for index in 0..threads {
            let queue = queue.clone();
            let name = format!("worker-{index}");
            let run = move || {
                while let Ok(job) = queue.recv() {
                    job();
                }
            };
            std::thread::Builder::new().name(name).spawn(run).map_err(no_thread)?;
        }
        Ok(Channel { jobs })
    }
}

impl Executor for Channel {
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        // It is refused when no worker is left, and workers end after the pool.
        let _ = self.jobs.send(Box::new(job));
    }
}
