//! How long a wait lasts, and how it ended: the same on all platforms, so the twins include this
//! file.

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Another thread woke this one (or the kernel did for no reason, which it may).
    Woken,
    /// The time was up.
    TimedOut,
    /// The word had another value to begin with.
    Changed,
    /// A signal handler ran.
    Interrupted,
}

/// The clock that a [`Deadline`] is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// [`crate::clock::now_ns`]
    Monotonic,
    /// [`crate::clock::unix_time_ns`]: a wait ends earlier or later if the clock is set meanwhile.
    Realtime,
}

/// A point in time at which a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The clock that says so.
    pub clock: Clock,
    /// Nanoseconds of that clock.
    pub ns: u64,
}

impl Deadline {
    /// So long from now, by the monotonic clock; never, if that is more than 500 years.
    ///
    /// ```
    /// use platform::futex::Deadline;
    /// use std::time::Duration;
    ///
    /// assert!(Deadline::after(Duration::from_secs(60)).remaining_ns() > 0);
    /// ```
    pub fn after(time: core::time::Duration) -> Deadline {
        let ns = crate::clock::duration_ns(time);
        let ns = crate::clock::now_ns().saturating_add(ns).min(i64::MAX as u64);
        Deadline { clock: Clock::Monotonic, ns }
    }

    /// How long it is until then, in nanoseconds; 0 if it is over.
    ///
    /// ```
    /// use platform::futex::{Clock, Deadline};
    ///
    /// assert_eq!(Deadline { clock: Clock::Realtime, ns: 0 }.remaining_ns(), 0);
    /// ```
    pub fn remaining_ns(self) -> u64 {
        let now_ns = match self.clock {
            Clock::Monotonic => crate::clock::now_ns(),
            Clock::Realtime => crate::clock::unix_time_ns(),
        };
        self.ns.saturating_sub(now_ns)
    }
}

/// Every set: a waiter with it is woken by each wake-up, and a wake-up with it wakes any waiter.
pub const ANY_SET: u32 = u32::MAX;
