//! The sleeping policy: sleep for a fixed time between two looks.
//!
//! Others always get the CPU, and the wait is noticed late: by half the time on average, by all of
//! it at worst, and by the timer slack on top (50 µs unless the thread has set another). The right
//! time is different for each use, which is what the adaptive policy is for.

use super::{Action, Backoff, Policy, Waiter};
use core::time::Duration;

/// Sleeps, always for the same time.
///
/// ```
/// use manx::wait::{FixedSleep, Policy};
/// use std::time::Duration;
///
/// let mut looks = 0;
/// let counts = FixedSleep::new(Duration::from_micros(50)).until(|| { looks += 1; looks == 3 });
/// assert_eq!(counts.sleeps, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedSleep {
    time: Duration,
}

/// A thread that waits by [`FixedSleep`].
///
/// ```
/// use manx::wait::{Backoff, FixedSleep, Sleeper};
/// use std::time::Duration;
///
/// let mut wait: Backoff<Sleeper> = FixedSleep::new(Duration::from_micros(10)).start();
/// wait.wait();
/// assert_eq!(wait.counts().sleeps, 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sleeper(FixedSleep);

impl FixedSleep {
    /// Sleeps for `time` between two looks. Below about 20 µs the kernel's own work takes longer
    /// than the sleep.
    pub const fn new(time: Duration) -> Self {
        FixedSleep { time }
    }

    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<Sleeper> {
        Backoff::new(Sleeper(*self))
    }
}

impl Policy for FixedSleep {
    type Waiter<'a> = Sleeper;

    #[inline]
    fn start(&self) -> Backoff<Sleeper> {
        FixedSleep::start(self)
    }
}

impl Waiter for Sleeper {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        let action = Action::Sleep(self.0.time);
        action.perform(timeout_ns);
        action
    }
}
