//! What can go wrong with a pool.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full. Try again later, or tell your own caller that you are overloaded.
    Full,
    /// The pool has been shut down.
    Closed,
    /// The process has been forked, and this is the child: the pool's workers stayed with its
    /// parent. Make a new pool.
    Forked,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Full => "the pool's queue is full: try again later, or raise its bound (queue_bound)",
            Refused::Closed => "the pool has been shut down",
            Refused::Forked => {
                "the pool's workers stayed with the process that was forked: make a new pool in its child"
            }
        })
    }
}

impl std::error::Error for Refused {}

/// A job that was not taken, and why.
pub struct Rejected<F> {
    /// The job, as it was.
    pub job: F,
    /// Why.
    pub why: Refused,
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<F> std::error::Error for Rejected<F> {}

/// Why a job has no result.
pub enum JoinError {
    /// It panicked, with this.
    Panicked(Box<dyn Any + Send>),
    /// Its deadline passed before a worker came to it.
    Late,
    /// The pool was shut down without it.
    Discarded,
    /// The process has been forked, and this is the child: the job stayed with its parent.
    Forked,
}

impl JoinError {
    /// The panic's words, if it was a panic and has any.
    pub fn panic_text(&self) -> Option<&str> {
        match self {
            JoinError::Panicked(payload) => Some(panic_text(&**payload)),
            _ => None,
        }
    }
}

/// Drops what may panic when it is dropped. What such a panic carries in turn is forgotten.
pub(super) fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(payload);
    }
}

/// A panic's words.
pub(super) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Panicked(payload) => write!(f, "the job panicked: {}", panic_text(&**payload)),
            JoinError::Late => f.write_str("the job's deadline passed before it was begun"),
            JoinError::Discarded => f.write_str("the pool was shut down before the job was begun"),
            JoinError::Forked => f.write_str("the job stayed with the process that was forked"),
        }
    }
}

impl std::error::Error for JoinError {}

/// Jobs that had not ended when a shutdown's time was up. No thread waits for them any more; they
/// end when they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillRunning {
    /// The number of workers that have not ended.
    pub workers: u32,
}

impl fmt::Display for StillRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the pool's workers still run a job", self.workers)
    }
}

impl std::error::Error for StillRunning {}
