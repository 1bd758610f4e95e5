//! The policies that do the same in each round: spin, yield, or sleep.

use super::{Action, Backoff, Policy, Waiter};
use core::time::Duration;

/// The policy that only spins: look, pause, look again, for ever.
///
/// The unsafe original of Andreoli and Cucinotta's study: it reacts fastest while each waiter and
/// the thread that it waits for have a CPU each. When CPUs are short it keeps that thread from
/// running for whole time slices, and takes no notice of the shortage. It is here to be compared
/// with, and for programs that know that they are alone on their CPUs; take
/// [`Adaptive`](super::Adaptive) or [`Event`](super::Event) instead.
///
/// ```
/// use manx::wait::{Policy, Spin};
///
/// assert_eq!(Spin.until(|| true).spins, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spin;

/// A thread that waits by [`Spin`].
#[derive(Clone, Copy, Debug)]
pub struct Spinner(());

impl Spin {
    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<Spinner> {
        Backoff::new(Spinner(()))
    }
}

impl Policy for Spin {
    type Waiter<'a> = Spinner;

    #[inline]
    fn start(&self) -> Backoff<Spinner> {
        Spin::start(self)
    }
}

impl Waiter for Spinner {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        Action::Spin.perform(timeout_ns);
        Action::Spin
    }
}

/// Gives way to others between two looks; sleeps where yields are useless.
///
/// Better than spinning, because a thread that is ready on this CPU gets it, if the scheduler
/// thinks that fair; that is all it promises. If no other thread is ready it is a slow way to spin,
/// and the scheduler may well take the waiter again before the thread that it waits for. Under a
/// real-time class a yield lets only equals run. Such a waiter sleeps instead:
/// [`Yield::REAL_TIME_SLEEP`] at a time.
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

/// Sleeps, always for the same time.
///
/// Others always get the CPU, and the wait is noticed late: by half the time on average, by all of
/// it at worst, and by the timer slack on top (50 µs unless the thread has set another). The right
/// time is different for each use, which is what [`Adaptive`](super::Adaptive) is for.
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
