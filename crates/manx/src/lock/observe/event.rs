//! What a hook is told of a lock.

use std::panic::Location;

/// How a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// With others, as a reader.
    Shared,
    /// Alone.
    Exclusive,
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
