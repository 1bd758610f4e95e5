//! What a waiter does in one round, between two looks at what it waits for.

use core::time::Duration;
use platform::clock::duration_ns;
use platform::{cpu, thread};

/// What a waiter does in one round of a wait.
///
/// ```
/// use manx::wait::{Action, Adaptive};
///
/// let policy = Adaptive::DEFAULT;
/// assert_eq!(policy.action(0), Action::Spin);
/// assert!(matches!(policy.action(u32::MAX), Action::Sleep(_)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Pause the CPU for some dozens of cycles, or look again at once.
    Spin,
    /// Let others run that are ready to.
    Yield,
    /// Sleep for this time.
    Sleep(Duration),
    /// Sleep until a signal.
    Park,
}

impl Action {
    /// Does it, if it is to be done in this thread alone ([`Action::Park`] needs to know where),
    /// and for no longer than `timeout_ns`.
    #[inline]
    pub(super) fn perform(self, timeout_ns: u64) {
        match self {
            Action::Spin => cpu::pause(),
            Action::Yield => thread::yield_now(),
            Action::Sleep(time) => thread::sleep_ns(duration_ns(time).min(timeout_ns)),
            Action::Park => {}
        }
    }

    /// `self`, or a sleep where a yield would be useless to the calling thread: under a real-time
    /// class.
    ///
    /// Such a thread gives way to its equals at most. If it waits for an ordinary thread on the
    /// same CPU, yielding goes on for ever.
    #[inline]
    pub(super) fn or_sleep_if_real_time(self, time: Duration) -> Action {
        match self {
            Action::Yield if thread::scheduling_class().yields_only_to_equals() => Action::Sleep(time),
            other => other,
        }
    }
}
