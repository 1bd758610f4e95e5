//! The result of a job: a place that the job fills, and a handle that waits for it, as a thread or
//! as a future.
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

/// A place for a result, from both sides.
pub(super) fn place<T>() -> (Promise<T>, JoinHandle<T>) {
    let place = Arc::new(Place {
        state: AtomicU32::new(PENDING),
        done: Event::new(),
        inner: Mutex::new(Inner { result: None, waker: None }),
        generation: platform::fork::generation(),
    });
    (Promise { place: place.clone() }, JoinHandle { place })
}

impl<T> Promise<T> {
    pub(super) fn keep(self, result: Result<T, JoinError>) {
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

/// What a job will have computed. Dropping it lets the job go on.
///
/// It can be waited for by a thread, or awaited as a future.
///
/// ```
/// use manx::pool::FriendlyPool;
///
/// let pool = FriendlyPool::builder().build()?;
/// let handle = pool.submit(|| "done")?;
/// assert_eq!(handle.join()?, "done");
///
/// let handle = pool.submit(|| panic!("as expected"))?;
/// assert_eq!(handle.join().unwrap_err().panic_text(), Some("as expected"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a job whose result nobody wants is queued by `execute`"]
pub struct JoinHandle<T> {
    place: Arc<Place<T>>,
}

impl<T> JoinHandle<T> {
    /// Whether the job has ended, or never will begin.
    pub fn is_finished(&self) -> bool {
        // Acquire: what the job wrote is there for a caller that goes by this.
        self.place.state.load(Ordering::Acquire) == DONE || self.is_lost()
    }

    fn is_lost(&self) -> bool {
        self.place.generation != platform::fork::generation()
    }

    /// Waits until the job has ended. From a job of the same pool it is no waste either: the worker
    /// does other jobs of its own, or another one is active in its place.
    ///
    /// # Errors
    /// The job has no result.
    pub fn join(self) -> Result<T, JoinError> {
        let is_finished = || self.is_finished();
        worker::wait_until(Help::First, is_finished, |limit_ns| {
            self.place.done.until_for(limit_ns, is_finished)
        });
        self.take()
    }

    /// As [`JoinHandle::join`], for so long at most; afterwards the handle is as it was.
    ///
    /// # Errors
    /// The time is up, and this is the handle; or the job has no result.
    pub fn join_timeout(self, time: Duration) -> Result<Result<T, JoinError>, JoinHandle<T>> {
        let deadline = Deadline::after(time);
        let is_over = || self.is_finished() || deadline.remaining_ns() == 0;
        // A job done meanwhile could take longer than there is time.
        worker::wait_until(Help::Last, is_over, |limit_ns| {
            self.place.done.until_for(limit_ns.min(deadline.remaining_ns()), || self.is_finished())
        });
        if self.is_finished() { Ok(self.take()) } else { Err(self) }
    }

    fn take(&self) -> Result<T, JoinError> {
        if self.is_lost() && self.place.state.load(Ordering::Acquire) != DONE {
            return Err(JoinError::Forked);
        }
        let result = self.place.inner.lock().result.take();
        result.expect("a result is taken once, by who consumes the handle")
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
