//! The scheduling classes of threads: the same on all platforms, so the twins include this file.

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulingClass {
    /// The usual one: `SCHED_OTHER`.
    Normal,
    /// As [`SchedulingClass::Normal`], for long computations: `SCHED_BATCH`.
    Batch,
    /// Runs when no other thread wants to: `SCHED_IDLE`.
    Idle,
    /// Runs until it blocks, or a thread of a higher priority comes: `SCHED_FIFO`.
    Fifo,
    /// As [`SchedulingClass::Fifo`], taking turns with its equals: `SCHED_RR`.
    RoundRobin,
    /// Has a budget in each period: `SCHED_DEADLINE`.
    Deadline,
    /// Something that this version does not know, such as a scheduler loaded by the administrator.
    Other,
}

impl SchedulingClass {
    /// Whether a thread of this class that yields lets only threads of its own priority run, never
    /// the ordinary thread that it may be waiting for. Such a waiter must sleep instead. (A thread
    /// with a deadline that yields gives up the rest of its period, which is longer than any caller
    /// asked for.)
    #[inline]
    pub const fn yields_only_to_equals(self) -> bool {
        matches!(self, SchedulingClass::Fifo | SchedulingClass::RoundRobin | SchedulingClass::Deadline)
    }
}
