//! What can go wrong with a pool.

use crate::lock::Mutex;
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// Why a pool did not accept a job.
///
/// ```
/// use manx::pool::{ExecuteError, FriendlyPool, Shutdown};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().build()?;
/// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
/// assert_eq!(pool.execute(|| ()), Err(ExecuteError::Closed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The pool has been shut down.
    #[error("the pool has been shut down")]
    Closed,
    /// The process has been forked, and this is the child: the pool's threads stayed with the
    /// parent. Build a new pool in the child.
    #[error("the pool's threads stayed with the process that was forked: build a new pool in the child")]
    Forked,
}

impl ExecuteError {
    /// The same error, which gives the job back.
    pub(super) fn with_job<F>(self, job: F) -> TryExecuteError<F> {
        match self {
            ExecuteError::Closed => TryExecuteError::Closed(job),
            ExecuteError::Forked => TryExecuteError::Forked(job),
        }
    }
}

/// Why a pool did not accept a job at once, or not within the timeout. Each variant has the job,
/// unchanged.
///
/// ```
/// use manx::pool::{FriendlyPool, Shutdown, TryExecuteError};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().build()?;
/// pool.shutdown(Shutdown::Drain, Duration::from_secs(60))?;
/// match pool.try_execute(|| println!("done")) {
///     Ok(()) => {}
///     Err(TryExecuteError::Full(job)) => drop(job), // overloaded: shed the job
///     Err(error) => error.into_inner()(), // run it here
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryExecuteError<F> {
    /// The queue is full. Try again later, or tell your own caller that you are overloaded.
    Full(F),
    /// The pool has been shut down.
    Closed(F),
    /// The process has been forked, and this is the child: the pool's threads stayed with the
    /// parent. Build a new pool in the child.
    Forked(F),
}

impl<F> TryExecuteError<F> {
    /// Returns the job.
    pub fn into_inner(self) -> F {
        match self {
            TryExecuteError::Full(job) | TryExecuteError::Closed(job) | TryExecuteError::Forked(job) => job,
        }
    }

    /// The error without the job; `None` if the queue is full.
    pub(super) fn without_job(&self) -> Option<ExecuteError> {
        match self {
            TryExecuteError::Full(_) => None,
            TryExecuteError::Closed(_) => Some(ExecuteError::Closed),
            TryExecuteError::Forked(_) => Some(ExecuteError::Forked),
        }
    }
}

impl<F> fmt::Debug for TryExecuteError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryExecuteError::Full(_) => "Full(..)",
            TryExecuteError::Closed(_) => "Closed(..)",
            TryExecuteError::Forked(_) => "Forked(..)",
        })
    }
}

impl<F> fmt::Display for TryExecuteError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.without_job() {
            Some(error) => error.fmt(f),
            None => f.write_str("the pool's queue is full: try again later, or raise its queue_capacity"),
        }
    }
}

impl<F> std::error::Error for TryExecuteError<F> {}

/// Why a job has no result.
///
/// ```
/// use manx::pool::{FriendlyPool, JoinError};
///
/// let pool = FriendlyPool::builder().build()?;
/// match pool.submit(|| -> u32 { panic!("no answer") })?.join() {
///     Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), "no answer"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The job panicked.
    #[error("the job panicked: {}", .0.message())]
    Panicked(PanicPayload),
    /// The job's deadline passed before a worker took it.
    #[error("the job's deadline passed before it began")]
    Late,
    /// The pool was shut down before a worker took the job.
    #[error("the pool was shut down before the job began")]
    Discarded,
    /// The process has been forked, and this is the child: the job stayed with the parent.
    #[error("the job stayed with the process that was forked")]
    Forked,
}

impl JoinError {
    /// Returns the panic's message if the job panicked.
    ///
    /// ```
    /// let pool = manx::pool::FriendlyPool::builder().build()?;
    /// let error = pool.submit(|| panic!("no answer"))?.join().unwrap_err();
    /// assert_eq!(error.panic_message(), Some("no answer"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn panic_message(&self) -> Option<&str> {
        match self {
            JoinError::Panicked(payload) => Some(payload.message()),
            _ => None,
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

/// What a job panicked with.
///
/// ```
/// use manx::pool::{FriendlyPool, JoinError};
///
/// let pool = FriendlyPool::builder().build()?;
/// let result = pool.submit(|| panic!("as expected"))?.join();
/// let Err(JoinError::Panicked(payload)) = result else { unreachable!() };
/// assert_eq!(payload.message(), "as expected");
/// let payload = payload.into_inner(); // for `std::panic::resume_unwind`
/// assert!(payload.is::<&str>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PanicPayload {
    message: String,
    /// Behind a lock, so that an error with it may be shared by threads: a payload need not be.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl PanicPayload {
    pub(super) fn new(payload: Box<dyn Any + Send>) -> PanicPayload {
        PanicPayload { message: panic_message(&*payload).to_owned(), payload: Mutex::new(payload) }
    }

    /// The panic's message; for a payload that is no string, a text that says so.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the payload itself, for [`std::panic::resume_unwind`].
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.payload.into_inner()
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicPayload").field(&self.message).finish()
    }
}

/// Drops what may panic when it is dropped. What such a panic carries in turn is forgotten.
pub(super) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(payload);
    }
}

/// A panic's message.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

/// Threads of the pool that had not ended when the timeout of a shutdown was over. They end later,
/// and no thread waits for them.
///
/// ```
/// use manx::pool::{FriendlyPool, Shutdown};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().build()?;
/// if let Err(error) = pool.shutdown(Shutdown::Drain, Duration::from_secs(60)) {
///     eprintln!("{} threads still run", error.threads);
/// }
/// # Ok::<(), manx::pool::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{threads} thread{} of the pool had not ended when the timeout was over",
    if *threads == 1 { "" } else { "s" }
)]
#[non_exhaustive]
pub struct ShutdownError {
    /// The number of these threads.
    pub threads: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_errors_can_be_sent_and_shared() {
        fn text<E: std::error::Error + Send + Sync + 'static>(error: E) -> String {
            error.to_string()
        }
        assert_eq!(text(ExecuteError::Closed), "the pool has been shut down");
        assert_eq!(text(ExecuteError::Closed.with_job(|| ())), "the pool has been shut down");
        let full = "the pool's queue is full: try again later, or raise its queue_capacity";
        assert_eq!(text(TryExecuteError::Full(1)), full);
        let payload = PanicPayload::new(Box::new("a reason"));
        assert_eq!(text(JoinError::Panicked(payload)), "the job panicked: a reason");
        let left = "2 threads of the pool had not ended when the timeout was over";
        assert_eq!(text(ShutdownError { threads: 2 }), left);
    }
}
