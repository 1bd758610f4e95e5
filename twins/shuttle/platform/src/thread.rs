//! Threads: shuttle's, which run one at a time in an order that the scheduler draws.

pub use shuttle::thread::{JoinHandle, spawn};

/// The timer slack of threads started by [`spawn_punctual`].
pub const PUNCTUAL_SLACK_NS: u64 = 1_000;

/// Lets other threads go first.
pub fn yield_now() {
    shuttle::thread::yield_now();
}

/// A point where other threads may go first, and need not.
pub(crate) fn step() {
    shuttle::thread::sleep(std::time::Duration::ZERO);
}

/// Sleeps until the clock is `ns` nanoseconds further; how much the others do meanwhile is open.
pub fn sleep_ns(ns: u64) {
    let until_ns = crate::clock::last_ns().saturating_add(ns);
    yield_now();
    crate::clock::reach(until_ns);
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

/// Sets how late sleeps may end: they end at any time here.
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
