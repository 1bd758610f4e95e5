//! A job: what a worker is to do, when it was queued, and until when it is worth doing.

use platform::clock;
use std::fmt;
use std::time::{Duration, Instant};

/// How urgent a job is.
///
/// Urgent jobs are taken first, those of the same priority in the order in which they came. One in
/// [`queue::FAIR`](super::queue::FAIR) jobs is taken from the least urgent, so that these are late,
/// but never for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others.
    High,
    /// What most are.
    #[default]
    Normal,
    /// When there is nothing else.
    Low,
}

/// Something to do for a pool, and how.
///
/// ```
/// use manx::pool::{FriendlyPool, Priority, Task};
/// use std::time::Duration;
///
/// let pool = FriendlyPool::builder().workers_max(2).build()?;
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
    /// Of normal priority, and without a deadline.
    pub fn new(run: F) -> Task<F> {
        Task { run, priority: Priority::Normal, deadline_ticks: NEVER }
    }

    /// With this priority.
    pub fn priority(self, priority: Priority) -> Task<F> {
        Task { priority, ..self }
    }

    /// A worker that comes to it after this moment drops it, unbegun: its answer would be too late
    /// (load shedding).
    pub fn deadline(self, deadline: Instant) -> Task<F> {
        self.within(deadline.saturating_duration_since(Instant::now()))
    }

    /// As [`Task::deadline`], so long from now.
    pub fn within(self, time: Duration) -> Task<F> {
        clock::init();
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ticks = clock::ticks().saturating_add(clock::ns_to_ticks(ns)).min(NEVER - 1);
        Task { deadline_ticks, ..self }
    }
}

impl<F> fmt::Debug for Task<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("priority", &self.priority).finish_non_exhaustive()
    }
}

/// What is queued.
pub(super) struct Job {
    pub(super) run: Box<dyn FnOnce() + Send>,
    /// When it came.
    pub(super) queued_ticks: u64,
    /// [`NEVER`], or until when it may begin.
    pub(super) deadline_ticks: u64,
    /// Whether it borrows from a thread that waits for it, so that it is never dropped.
    pub(super) is_lent: bool,
}

impl Job {
    /// Whether it is too late to begin.
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
            is_lent: false,
        };
        assert!(job.is_late(clock::ticks() + 1));
        let job = Job { run: Box::new(|| ()), queued_ticks: 0, deadline_ticks: NEVER, is_lent: false };
        assert!(!job.is_late(u64::MAX));
    }
}
