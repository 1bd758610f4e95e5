//! Threads: the model checker's, which run one at a time.

pub use crate::checker::thread::{JoinHandle, spawn};
pub use crate::scheduling_class::SchedulingClass;

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
