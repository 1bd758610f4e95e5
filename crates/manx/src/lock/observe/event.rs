//! What a hook is told of a lock.

use std::panic::Location;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// With others, as a reader.
    Shared,
    /// With readers, and before any writer.
    Upgradable,
    /// Alone.
    Exclusive,
    /// Alone, by a thread that has it as [`Access::Upgradable`]. Only waits have it.
    Upgrade,
}

impl Access {
    /// Whether readers may hold the lock at the same time.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Access::Shared | Access::Upgradable)
    }

    /// Whether a thread that wants it waits for a thread that holds the lock as `held`.
    pub(super) fn waits_for(self, held: Access) -> bool {
        match self {
            Access::Shared => !held.is_read(),
            Access::Upgradable => held != Access::Shared,
            Access::Exclusive => true,
            Access::Upgrade => held == Access::Shared,
        }
    }
}

/// What a wait came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitOutcome {
    /// The waiter's window was over before it was served.
    pub starving: bool,
    /// The lock was handed over, not found free.
    pub handed_over: bool,
}

/// Where in the source something was done.
pub(crate) type Place = &'static Location<'static>;
