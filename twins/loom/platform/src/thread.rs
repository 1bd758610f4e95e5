//! Threads: the model checker's, which run one at a time.

pub use crate::checker::thread::{JoinHandle, spawn};

/// The timer slack of threads started by [`spawn_punctual`].
pub const PUNCTUAL_SLACK_NS: u64 = 1_000;

/// Lets other threads go first.
pub fn yield_now() {
    crate::checker::thread::yield_now();
}

/// Lets `ns` nanoseconds pass, and other threads go first.
pub fn sleep_ns(ns: u64) {
    crate::clock::sleep(ns);
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingClass {
    /// Everybody's.
    Normal,
    /// For long computations.
    Batch,
    /// Runs when nobody else wants to.
    Idle,
    /// Runs until it blocks or somebody more important comes.
    Fifo,
    /// As [`SchedulingClass::Fifo`], taking turns with its equals.
    RoundRobin,
    /// Has a budget in each period.
    Deadline,
    /// Something else.
    Other,
}

impl SchedulingClass {
    /// Whether a thread of this class that yields gives way to its equals at most.
    pub const fn yields_only_to_equals(self) -> bool {
        matches!(self, SchedulingClass::Fifo | SchedulingClass::RoundRobin | SchedulingClass::Deadline)
    }
}

/// The calling thread's class: there is one here.
pub fn scheduling_class() -> SchedulingClass {
    SchedulingClass::Normal
}

/// Sets how late sleeps may end: that is not the kernel's affair here.
pub fn set_timer_slack_ns(_slack_ns: u64) {}

/// The calling thread's timer slack.
pub fn timer_slack_ns() -> u64 {
    0
}

/// Starts a thread whose sleeps end on time.
pub fn spawn_punctual<F, T>(run: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn(run)
}
