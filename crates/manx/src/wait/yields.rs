//! The yielding policy: give way to others between two looks.
//!
//! Better than spinning, because a thread that is ready on this CPU gets it, if the scheduler
//! thinks that fair; that is all it promises. If no other thread is ready it is a slow way to spin,
//! and the scheduler may well take the waiter again before the thread that it waits for.
//!
//! Under a real-time class a yield lets only equals run. Such a waiter sleeps instead:
//! [`Yield::REAL_TIME_SLEEP`] at a time.

use super::{Action, Backoff, Policy, Waiter};
use core::time::Duration;

/// Yields; sleeps where yields are useless.
///
/// ```
/// use manx::wait::{Policy, Yield};
///
/// let mut looks = 0;
/// Yield.until(|| { looks += 1; looks == 3 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yield;

/// A thread that waits by [`Yield`].
///
/// ```
/// use manx::wait::{Backoff, Yield, Yielder};
///
/// let mut wait: Backoff<Yielder> = Yield.start();
/// wait.wait();
/// assert_eq!(wait.counts().rounds(), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Yielder {
    action: Option<Action>,
}

impl Yield {
    /// How long a thread of a real-time class sleeps instead of yielding. Its timers have no slack,
    /// so this is what it gets.
    pub const REAL_TIME_SLEEP: Duration = Duration::from_micros(50);

    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<Yielder> {
        Backoff::new(Yielder { action: None })
    }
}

impl Policy for Yield {
    type Waiter<'a> = Yielder;

    #[inline]
    fn start(&self) -> Backoff<Yielder> {
        Yield::start(self)
    }
}

impl Waiter for Yielder {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        // The class is asked for once a wait, when it first matters.
        let action =
            *self.action.get_or_insert_with(|| Action::Yield.or_sleep_if_real_time(Yield::REAL_TIME_SLEEP));
        action.perform(timeout_ns);
        action
    }
}
