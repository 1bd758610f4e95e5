//! The result of a job: a promise that the job fulfils, and a handle that waits for it, as a thread
//! or as a future.
//!
//! Invariants:
//! 1. The job's side writes the result once, then sets `DONE` (release). The handle's side reads it
//!    after it has seen `DONE` (acquire), and takes it at most once, because taking consumes the
//!    handle or its readiness.
//! 2. A job's side that goes away without a result leaves a result that says why: so each wait
//!    ends.

use super::error::JoinError;
use super::worker::{self, Help};
use crate::lock::Mutex;
use crate::wait::{Event, Policy as _};
use platform::atomic::{AtomicU32, Ordering};
use platform::futex::Deadline;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PENDING: u32 = 0;
const DONE: u32 = 1;

struct Place<T> {
    state: AtomicU32,
    done: Event,
    inner: Mutex<Inner<T>>,
    /// The generation of processes in which the job was queued.
    generation: u32,
}

struct Inner<T> {
    result: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
}

/// The job's side.
pub(super) struct Promise<T> {
    place: Arc<Place<T>>,
}

/// A promise of a result, and the handle that waits for it.
pub(super) fn promise<T>() -> (Promise<T>, JoinHandle<T>) {
    let place = Arc::new(Place {
        state: AtomicU32::new(PENDING),
        done: Event::new(),
        inner: Mutex::new(Inner { result: None, waker: None }),
        generation: platform::fork::generation(),
    });
    (Promise { place: place.clone() }, JoinHandle { place })
}

impl<T> Promise<T> {
    pub(super) fn fulfil(self, result: Result<T, JoinError>) {
        self.fill(result);
    }

    fn fill(&self, result: Result<T, JoinError>) {
        let waker = {
            let mut inner = self.place.inner.lock();
            if inner.result.is_some() || self.place.state.load(Ordering::Relaxed) == DONE {
                return;
            }
            inner.result = Some(result);
            // Release: Invariant 1.
            self.place.state.store(DONE, Ordering::Release);
            inner.waker.take()
        };
        self.place.done.signal_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if self.place.state.load(Ordering::Relaxed) != DONE {
            let late = worker::is_shedding();
            self.fill(Err(if late { JoinError::Late } else { JoinError::Discarded }));
        }
    }
}

/// The future result of a job. Dropping the handle does not cancel the job.
///
/// A thread can wait for it, and a task can await it as a future.
///
/// ```
/// use manx::pool::FriendlyPool;
///
/// let pool = FriendlyPool::builder().build()?;
/// let handle = pool.submit(|| "done")?;
/// assert_eq!(handle.join()?, "done");
///
/// let handle = pool.submit(|| panic!("as expected"))?;
/// assert_eq!(handle.join().unwrap_err().panic_message(), Some("as expected"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "use `execute` for a job without a result"]
pub struct JoinHandle<T> {
    place: Arc<Place<T>>,
}

impl<T> JoinHandle<T> {
    /// Whether the job has ended, or will never begin.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let handle = pool.submit(|| 42)?;
    /// while !handle.is_finished() {
    ///     std::thread::yield_now(); // or something useful
    /// }
    /// assert_eq!(handle.join()?, 42); // does not wait
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_finished(&self) -> bool {
        // Acquire: what the job wrote is there for a caller that goes by this.
        self.place.state.load(Ordering::Acquire) == DONE || self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.place.generation != platform::fork::generation()
    }

    /// Waits until the job has ended. If a job of the same pool waits, its worker runs other jobs
    /// that it has queued itself, or another worker becomes active.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let answers = [1, 2, 3].map(|number| pool.submit(move || number * 2));
    /// let sum = answers.into_iter().map(|answer| answer.unwrap().join().unwrap()).sum::<i32>();
    /// assert_eq!(sum, 12);
    /// # Ok::<(), manx::pool::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The job has no result.
    pub fn join(self) -> Result<T, JoinError> {
        let is_finished = || self.is_finished();
        worker::wait_until(Help::First, is_finished, |limit_ns| {
            self.place.done.until_for(Duration::from_nanos(limit_ns), is_finished)
        });
        self.take()
    }

    /// As [`JoinHandle::join`], but waits for at most `time`.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    ///
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let (sender, receiver) = channel();
    /// let handle = pool.submit(move || receiver.recv())?;
    /// let handle = handle.join_timeout(Duration::from_millis(1)).expect_err("it waits");
    /// sender.send("a message")?;
    /// assert_eq!(handle.join()?, Ok("a message"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The outer error is the handle, unchanged: the timeout is over. The inner error says why the
    /// job has no result.
    pub fn join_timeout(self, time: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        let deadline = Deadline::after(time);
        let is_over = || self.is_finished() || deadline.remaining_ns() == 0;
        // A job done meanwhile could take longer than there is time.
        worker::wait_until(Help::Last, is_over, |limit_ns| {
            let limit = Duration::from_nanos(limit_ns.min(deadline.remaining_ns()));
            self.place.done.until_for(limit, || self.is_finished())
        });
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    fn take(&self) -> Result<T, JoinError> {
        if self.is_lost() && self.place.state.load(Ordering::Acquire) != DONE {
            return Err(JoinError::Forked);
        }
        let result = self.place.inner.lock().result.take();
        result.expect("a result is taken once, since that consumes the handle")
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled after it was ready, as futures may.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.is_finished() {
            let mut inner = self.place.inner.lock();
            // Under the lock: the thread that fills the place takes the waker there.
            if inner.result.is_none() {
                let before = match &inner.waker {
                    Some(waker) if waker.will_wake(context.waker()) => None,
                    _ => inner.waker.replace(context.waker().clone()),
                };
                // What wakers do when they are dropped is done without the lock.
                drop(inner);
                drop(before);
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take())
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
