//! A job: a closure for a worker, the time when it was queued, and its deadline.

use platform::clock;
use std::fmt;
use std::time::{Duration, Instant};

/// How urgent a job is.
///
/// Urgent jobs are taken first, and jobs of the same priority in the order in which they came. One
/// in 61 jobs is taken from the less urgent ones, so that these do not starve.
///
/// ```
/// use manx::pool::{FriendlyPool, Priority, Task};
///
/// let pool = FriendlyPool::builder().build()?;
/// let urgent = pool.submit_task(Task::new(|| 1).priority(Priority::High))?;
/// let report = pool.submit_task(Task::new(|| 2).priority(Priority::Low))?;
/// assert_eq!(urgent.join()? + report.join()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Runs before all others.
    High,
    /// The default.
    #[default]
    Normal,
    /// Runs when no other job is queued.
    Low,
}

/// A job for a pool, with a priority and a deadline.
///
/// ```
/// use manx::pool::{FriendlyPool, Priority, Task};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().num_threads(2).build()?;
/// let answer = pool.submit_task(Task::new(|| 6 * 7).priority(Priority::High).within(Duration::from_secs(60)))?;
/// assert_eq!(answer.join()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Task<F> {
    pub(super) run: F,
    pub(super) priority: Priority,
    pub(super) deadline_ticks: u64,
}

/// The deadline of a job that has none.
pub(super) const NEVER: u64 = u64::MAX;

impl<F> Task<F> {
    /// A task of normal priority, without a deadline.
    pub fn new(run: F) -> Task<F> {
        Task { run, priority: Priority::Normal, deadline_ticks: NEVER }
    }

    /// Sets the priority.
    pub fn priority(self, priority: Priority) -> Task<F> {
        Task { priority, ..self }
    }

    /// Sets a deadline. A worker that takes the job after it drops the job: its result would be too
    /// late (load shedding).
    pub fn deadline(self, deadline: Instant) -> Task<F> {
        self.within(deadline.saturating_duration_since(Instant::now()))
    }

    /// As [`Task::deadline`], with a deadline `time` from now.
    ///
    /// ```
    /// use manx::pool::{FriendlyPool, JoinError, Task};
    /// use std::time::Duration;
    ///
    /// let pool = FriendlyPool::builder().build()?;
    /// let late = pool.submit_task(Task::new(|| 42).within(Duration::ZERO))?;
    /// assert!(matches!(late.join(), Err(JoinError::Late)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(self, time: Duration) -> Task<F> {
        clock::init();
        let ticks = clock::ns_to_ticks(clock::duration_ns(time));
        let deadline_ticks = clock::ticks().saturating_add(ticks).min(NEVER - 1);
        Task { deadline_ticks, ..self }
    }
}

impl<F> fmt::Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("priority", &self.priority).finish_non_exhaustive()
    }
}

/// A job in the queue.
pub(super) struct Job {
    pub(super) run: Box<dyn FnOnce() + Send>,
    /// When the job was queued.
    pub(super) queued_ticks: u64,
    /// The latest time at which the job may begin; or [`NEVER`].
    pub(super) deadline_ticks: u64,
    /// Whether the job borrows from a thread that waits for it. Such a job is never dropped.
    pub(super) is_scoped: bool,
}

impl Job {
    /// Whether it is too late for the job to begin.
    pub(super) fn is_late(&self, now_ticks: u64) -> bool {
        now_ticks > self.deadline_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_is_too_far_to_count_is_never_passed() {
        clock::init();
        let far = Task::new(|| ()).within(Duration::MAX);
        assert!(far.deadline_ticks < NEVER && far.deadline_ticks > clock::ticks());
        let past = Task::new(|| ()).deadline(Instant::now() - Duration::from_millis(1));
        let job = Job {
            run: Box::new(|| ()),
            queued_ticks: 0,
            deadline_ticks: past.deadline_ticks,
            is_scoped: false,
        };
        assert!(job.is_late(clock::ticks() + 1));
        let job = Job { run: Box::new(|| ()), queued_ticks: 0, deadline_ticks: NEVER, is_scoped: false };
        assert!(!job.is_late(u64::MAX));
    }
}
