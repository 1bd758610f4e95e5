//! The interface of the pool.

use super::error::{ExecuteError, JoinError, PanicPayload, ShutdownError, TryExecuteError};
use super::handle::{JoinHandle, promise};
use super::job::{Job, Priority, Task};
use super::shared::{Shared, Shutdown};
use super::stats::{Latencies, Stats};
use super::worker::{block_in_place, with_current_worker};
use platform::clock::ticks;
use platform::futex::Deadline;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A pool of threads that follows the CPU budget of its process and yields to its neighbours.
///
/// Threads share it by reference, for example in an [`Arc`]. Dropping it shuts it down. For the
/// rules see [`Control`](super::Control), and Jeffery and others, "Reducing tail latencies through
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
    pub(super) shared: Arc<Shared>,
    on_drop: (Shutdown, Duration),
}

/// How long to wait for room in the queue.
#[derive(Clone, Copy)]
enum Room {
    Now,
    Until(Option<Deadline>),
}

impl FriendlyPool {
    pub(super) fn new(shared: Arc<Shared>, on_drop: (Shutdown, Duration)) -> FriendlyPool {
        FriendlyPool { shared, on_drop }
    }

    /// The name of the pool.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Queues a job, which a worker runs. Waits while the queue is full. A job of the same pool
    /// never waits: the jobs that it queues may exceed the bound.
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
    pub fn execute(&self, job: impl FnOnce() + Send + 'static) -> Result<(), ExecuteError> {
        self.execute_task(Task::new(job))
    }

    /// As [`FriendlyPool::execute`], with a priority or a deadline.
    ///
    /// # Errors
    /// As [`FriendlyPool::execute`].
    pub fn execute_task(&self, task: Task<impl FnOnce() + Send + 'static>) -> Result<(), ExecuteError> {
        // It waits for room, so a full queue is no reason.
        self.queue(Room::Until(None), task)
            .map_err(|error| error.without_job().unwrap_or(ExecuteError::Closed))
    }

    /// As [`FriendlyPool::execute`], but only if the queue has room now. If not, the error contains
    /// the job.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, TryExecuteError};
    /// use std::sync::mpsc::channel;
    ///
    /// let pool = FriendlyPool::builder().num_threads(1).queue_capacity(1).build()?;
    /// let (go, gone) = channel::<()>();
    /// let (begin, begun) = channel();
    /// pool.execute(move || {
    ///     begin.send(()).unwrap();
    ///     let _ = gone.recv();
    /// })?;
    /// begun.recv()?; // It has left the queue.
    /// assert!(pool.try_execute(|| ()).is_ok());
    /// assert!(matches!(pool.try_execute(|| ()), Err(TryExecuteError::Full(_job))));
    /// drop(go);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The queue is full, the pool has been shut down, or is another process's.
    pub fn try_execute<F: FnOnce() + Send + 'static>(&self, job: F) -> Result<(), TryExecuteError<F>> {
        self.queue(Room::Now, Task::new(job))
    }

    /// As [`FriendlyPool::execute`], but waits for at most `time`.
    ///
    /// # Errors
    /// The queue was full all the time, the pool has been shut down, or is another process's.
    pub fn execute_timeout<F: FnOnce() + Send + 'static>(
        &self,
        job: F,
        time: Duration,
    ) -> Result<(), TryExecuteError<F>> {
        self.queue(Room::Until(Some(Deadline::after(time))), Task::new(job))
    }

    /// Queues a job that has a result. The handle waits for the result.
    ///
    /// # Errors
    /// As [`FriendlyPool::execute`].
    pub fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, ExecuteError> {
        self.submit_task(Task::new(job))
    }

    /// As [`FriendlyPool::submit`], with a priority or a deadline.
    ///
    /// # Errors
    /// As [`FriendlyPool::execute`].
    pub fn submit_task<T: Send + 'static>(
        &self,
        task: Task<impl FnOnce() -> T + Send + 'static>,
    ) -> Result<JoinHandle<T>, ExecuteError> {
        let (promise, handle) = promise();
        let Task { run, priority, deadline_ticks } = task;
        let run = move || match catch_unwind(AssertUnwindSafe(run)) {
            Ok(value) => promise.fulfil(Ok(value)),
            Err(payload) => {
                let payload = PanicPayload::new(payload);
                let message = payload.message().to_owned();
                promise.fulfil(Err(JoinError::Panicked(payload)));
                // Once more, so that the worker counts and reports it.
                resume_unwind(Box::new(message));
            }
        };
        self.execute_task(Task { run, priority, deadline_ticks })?;
        Ok(handle)
    }

    fn queue<F: FnOnce() + Send + 'static>(
        &self,
        room: Room,
        task: Task<F>,
    ) -> Result<(), TryExecuteError<F>> {
        let shared = &self.shared;
        with_current_worker(|current| {
            let current = current.filter(|current| Arc::ptr_eq(&current.shared, shared));
            if let Err(error) = shared.admits(current.is_some()) {
                return Err(error.with_job(task.run));
            }
            if current.is_none() && !self.has_room(room) {
                return Err(match shared.admits(false) {
                    Ok(()) => TryExecuteError::Full(task.run),
                    Err(error) => error.with_job(task.run),
                });
            }
            let Task { run, priority, deadline_ticks } = task;
            let job = Job { run: Box::new(run), queued_ticks: ticks(), deadline_ticks, is_scoped: false };
            match current {
                Some(current) => current.push(job, priority),
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

    /// Queues a task of a scope. If the pool has been shut down, the error contains the task.
    pub(super) fn queue_scoped(&self, run: Box<dyn FnOnce() + Send>) -> Result<(), Box<dyn FnOnce() + Send>> {
        let shared = &self.shared;
        with_current_worker(|current| {
            let current = current.filter(|current| Arc::ptr_eq(&current.shared, shared));
            if shared.admits(current.is_some()).is_err() {
                return Err(run);
            }
            let job = Job { run, queued_ticks: ticks(), deadline_ticks: super::job::NEVER, is_scoped: true };
            match current {
                Some(current) => current.push(job, Priority::Normal),
                None => {
                    // Beyond the bound: a thread that waits in a scope is itself the bound.
                    shared.queue.count_more();
                    shared.push(job, Priority::Normal);
                }
            }
            Ok(())
        })
    }

    /// Returns counts and latencies, for people and monitoring. Costs some microseconds for each
    /// worker.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Returns how long the jobs took, as whole histograms: to export them, or to subtract those of
    /// an earlier call. Costs some microseconds for each worker.
    pub fn latencies(&self) -> Latencies {
        self.shared.latencies()
    }

    /// Accepts no more jobs, runs or drops the queued ones, and waits until the threads of the pool
    /// have ended and called their exit handlers, for `timeout` at most. If a job of the pool calls
    /// this, the call does not wait, and the pool ends after the job.
    ///
    /// ```
    /// use manx::pool::{ExecuteError, FriendlyPool, Shutdown};
    /// use std::time::Duration;
    ///
    /// let pool = FriendlyPool::builder().build()?;
    /// let answer = pool.submit(|| 42)?;
    /// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
    /// assert_eq!(answer.join()?, 42);
    /// assert_eq!(pool.execute(|| ()), Err(ExecuteError::Closed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The timeout is over. The jobs that still run are not interrupted; a further call waits
    /// again.
    pub fn shutdown(&self, how: Shutdown, timeout: Duration) -> Result<(), ShutdownError> {
        if self.shared.is_forked() {
            return Ok(());
        }
        self.shared.close(how);
        if with_current_worker(|current| {
            current.is_some_and(|current| Arc::ptr_eq(&current.shared, &self.shared))
        }) {
            return Ok(());
        }
        match block_in_place(|| self.shared.wait_for_end(Some(Deadline::after(timeout)))) {
            0 => Ok(()),
            threads => Err(ShutdownError { threads }),
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
