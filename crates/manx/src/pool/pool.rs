//! The pool as its users see it.

use super::error::{JoinError, Refused, Rejected, StillRunning};
use super::handle::{JoinHandle, place};
use super::job::{Job, Priority, Task};
use super::shared::{Shared, Shutdown};
use super::stats::{Latencies, Stats};
use super::worker::{block_in_place, with_here};
use platform::clock::ticks;
use platform::futex::Deadline;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A pool of threads that follows the CPU budget of its process and gives way to its neighbours.
///
/// It is shared by reference, such as an [`Arc`]; dropping it shuts it down. After
/// [`Control`](super::Control), see also Jeffery and others, "Reducing tail latencies through
/// environment- and neighbour-aware thread management", section 5.2.
///
/// ```
/// use manx::pool::FriendlyPool;
///
/// let pool = FriendlyPool::builder().name("squares").build()?;
/// let handles: Vec<_> = (0..10_u64).map(|n| pool.submit(move || n * n)).collect::<Result<_, _>>()?;
/// let squares: u64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
/// assert_eq!(squares, 285);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FriendlyPool {
    shared: Arc<Shared>,
    on_drop: (Shutdown, Duration),
}

/// How to come by room in the queue.
#[derive(Clone, Copy)]
enum Room {
    Now,
    Until(Option<Deadline>),
}

impl FriendlyPool {
    pub(super) fn new(shared: Arc<Shared>, on_drop: (Shutdown, Duration)) -> FriendlyPool {
        FriendlyPool { shared, on_drop }
    }

    /// The name of its threads.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Does this, some time, in a worker. Waits while the queue is full; a job of this very pool
    /// never waits, its jobs are queued beyond the bound.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    ///
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let (tell, hear) = channel();
    /// pool.execute(move || tell.send("done").unwrap())?;
    /// assert_eq!(hear.recv()?, "done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The pool has been shut down, or is another process's.
    pub fn execute(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Refused> {
        self.execute_task(Task::new(job))
    }

    /// As [`FriendlyPool::execute`], with a priority or a deadline.
    ///
    /// # Errors
    /// As there.
    pub fn execute_task(&self, task: Task<impl FnOnce() + Send + 'static>) -> Result<(), Refused> {
        self.queue(Room::Until(None), task).map_err(|rejected| rejected.why)
    }

    /// As [`FriendlyPool::execute`], if there is room in the queue now. A job that is not taken
    /// comes back.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, Refused};
    /// use std::sync::mpsc::channel;
    ///
    /// let pool = FriendlyPool::builder().workers_max(1).queue_bound(1).build()?;
    /// let (go, gone) = channel::<()>();
    /// let (begin, begun) = channel();
    /// pool.execute(move || {
    ///     begin.send(()).unwrap();
    ///     let _ = gone.recv();
    /// })?;
    /// begun.recv()?; // It has left the queue.
    /// assert!(pool.try_execute(|| ()).is_ok());
    /// assert_eq!(pool.try_execute(|| ()).unwrap_err().why, Refused::Full);
    /// drop(go);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is full, the pool has been shut down, or is another process's.
    pub fn try_execute<F: FnOnce() + Send + 'static>(&self, job: F) -> Result<(), Rejected<F>> {
        self.queue(Room::Now, Task::new(job))
    }

    /// As [`FriendlyPool::execute`], but waits for so long at most.
    ///
    /// # Errors
    /// The queue was full all the time, the pool has been shut down, or is another process's.
    pub fn execute_timeout<F: FnOnce() + Send + 'static>(
        &self,
        job: F,
        time: Duration,
    ) -> Result<(), Rejected<F>> {
        self.queue(Room::Until(Some(Deadline::after(time))), Task::new(job))
    }

    /// Computes this in a worker. The handle waits for the result.
    ///
    /// # Errors
    /// As [`FriendlyPool::execute`].
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Refused> {
        self.submit_task(Task::new(job))
    }

    /// As [`FriendlyPool::submit`], with a priority or a deadline.
    ///
    /// # Errors
    /// As [`FriendlyPool::execute`].
    pub fn submit_task<T: Send + 'static>(
        &self,
        task: Task<impl FnOnce() -> T + Send + 'static>,
    ) -> Result<JoinHandle<T>, Refused> {
        let (promise, handle) = place();
        let Task { run, priority, deadline_ticks } = task;
        let run = move || match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => promise.keep(Ok(value)),
            Err(payload) => {
                let text = super::error::panic_text(&*payload).to_owned();
                promise.keep(Err(JoinError::Panicked(payload)));
                // Once more, so that the worker counts and reports it.
                resume_unwind(Box::new(text));
            }
        };
        self.execute_task(Task { run, priority, deadline_ticks })?;
        Ok(handle)
    }

    fn queue<F: FnOnce() + Send + 'static>(&self, room: Room, task: Task<F>) -> Result<(), Rejected<F>> {
        let shared = &self.shared;
        with_here(|here| {
            let here = here.filter(|here| Arc::ptr_eq(&here.shared, shared));
            if let Err(why) = shared.admits(here.is_some()) {
                return Err(Rejected { job: task.run, why });
            }
            if here.is_none() && !self.has_room(room) {
                let why = shared.admits(false).err().unwrap_or(Refused::Full);
                return Err(Rejected { job: task.run, why });
            }
            let Task { run, priority, deadline_ticks } = task;
            let job = Job { run: Box::new(run), queued_ticks: ticks(), deadline_ticks, is_lent: false };
            match here {
                Some(here) => here.push(job, priority),
                None => shared.push(job, priority),
            }
            Ok(())
        })
    }

    fn has_room(&self, room: Room) -> bool {
        let queue = &self.shared.queue;
        queue.reserve()
            || match room {
                Room::Now => false,
                // A worker of another pool is not active meanwhile.
                Room::Until(deadline) => {
                    block_in_place(|| queue.reserve_until(deadline, || self.shared.is_open()))
                }
            }
    }

    /// Queues a task of a scope. Whether it was taken; if not, it comes back.
    pub(super) fn lend(&self, run: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
        let shared = &self.shared;
        with_here(|here| {
            let here = here.filter(|here| Arc::ptr_eq(&here.shared, shared));
            if shared.admits(here.is_some()).is_err() {
                return Err(run);
            }
            let job = Job { run, queued_ticks: ticks(), deadline_ticks: super::job::NEVER, is_lent: true };
            match here {
                Some(here) => here.push(job, Priority::Normal),
                None => {
                    // Beyond the bound: a thread that waits in a scope is itself the bound.
                    shared.queue.count_more();
                    shared.push(job, Priority::Normal);
                }
            }
            Ok(())
        })
    }

    /// What it did and does. For people and monitoring: it costs some microseconds for each worker.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// How long its jobs took, as whole histograms: to export, or to subtract an earlier moment's
    /// from. It costs some microseconds for each worker.
    ///
    /// ```
    /// use manx::pool::FriendlyPool;
    ///
    /// let pool = FriendlyPool::builder().build()?;
    /// pool.submit(|| 42)?.join()?;
    /// for (least_ns, most_ns, jobs) in pool.latencies().total.buckets() {
    ///     println!("{least_ns} to {most_ns} ns: {jobs} jobs");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn latencies(&self) -> Latencies {
        self.shared.latencies()
    }

    /// Takes no more jobs, does or drops what is queued, and waits until its threads have ended,
    /// for `timeout` at most. A worker that calls this does not wait for itself: then the pool ends
    /// when its job does.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, Refused, Shutdown};
    /// use std::time::Duration;
    ///
    /// let pool = FriendlyPool::builder().build()?;
    /// let answer = pool.submit(|| 42)?;
    /// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
    /// assert_eq!(answer.join()?, 42);
    /// assert_eq!(pool.execute(|| ()), Err(Refused::Closed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The time was up. What runs then ends when it ends; a further call waits again.
    pub fn shutdown(&self, how: Shutdown, timeout: Duration) -> Result<(), StillRunning> {
        if self.shared.is_forked() {
            return Ok(());
        }
        self.shared.close(how);
        if with_here(|here| here.is_some_and(|here| Arc::ptr_eq(&here.shared, &self.shared))) {
            return Ok(());
        }
        match block_in_place(|| self.shared.wait_for_end(Some(Deadline::after(timeout)))) {
            0 => Ok(()),
            workers => Err(StillRunning { workers }),
        }
    }
}

impl Drop for FriendlyPool {
    fn drop(&mut self) {
        let (how, timeout) = self.on_drop;
        if self.shutdown(how, timeout).is_err() {
            self.shared.close(Shutdown::Discard);
        }
    }
}

impl fmt::Debug for FriendlyPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FriendlyPool").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
