//! The sleeping policy: sleep for a fixed time between two looks.
//!
//! Others always get the CPU, and the wait is noticed late: by half the time on average, by all of
//! it at worst, and by the timer slack on top (50 µs unless the thread has set another). The right
//! time is different for each use, which is what the adaptive policy is for.

use super::{Action, Backoff, Policy, Waiter};

/// Sleeps, always for the same time.
///
/// ```
/// use manx::wait::{FixedSleep, Policy};
///
/// let mut looks = 0;
/// let counts = FixedSleep::new(50_000).until(|| { looks += 1; looks == 3 });
/// assert_eq!(counts.sleeps, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedSleep {
    sleep_ns: u64,
}

/// A thread that waits by [`FixedSleep`].
#[derive(Clone, Copy, Debug)]
pub struct Sleeper(FixedSleep);

impl FixedSleep {
    /// Sleeps for `sleep_ns` nanoseconds at a time. Below about 20 µs the kernel's own work takes
    /// longer than the sleep.
    pub const fn new(sleep_ns: u64) -> Self {
        FixedSleep { sleep_ns }
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
        let action = Action::Sleep { ns: self.0.sleep_ns };
        action.perform(timeout_ns);
        action
    }
}
