//! What a waiter does in one round, between two looks at what it waits for.

use platform::{cpu, thread};

/// One round of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pause the CPU for some dozens of cycles, or look again at once.
    Spin,
    /// Let others run that are ready to.
    Yield,
    /// Sleep.
    Sleep {
        /// How long, in nanoseconds.
        ns: u64,
    },
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
            Action::Sleep { ns } => thread::sleep_ns(if ns < timeout_ns { ns } else { timeout_ns }),
            Action::Park => {}
        }
    }

    /// `self`, or a sleep where a yield would be useless to the calling thread: under a real-time
    /// class.
    ///
    /// Such a thread gives way to its equals at most. If it waits for an ordinary thread on the
    /// same CPU, yielding goes on for ever.
    #[inline]
    pub(super) fn or_sleep_if_real_time(self, ns: u64) -> Action {
        match self {
            Action::Yield if thread::scheduling_class().yields_only_to_equals() => Action::Sleep { ns },
            other => other,
        }
    }
}
