//! How often a wait did what, and for how long.
//!
//! Counting is an addition in a local variable, which the compiler drops where no code reads it.
//! Time needs a clock twice a round, so it is measured only by a [`Backoff`](super::Backoff) that
//! was asked to, and that is another type: [`Untimed`] is empty.

use super::Action;
use core::time::Duration;
use platform::clock;

/// How often a wait did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Rounds that paused or looked again at once.
    pub spins: u64,
    /// Rounds that gave way to others.
    pub yields: u64,
    /// Rounds that slept for a time.
    pub sleeps: u64,
    /// Rounds that slept until a signal.
    pub parks: u64,
}

impl Counts {
    /// Returns the number of all rounds.
    pub const fn rounds(&self) -> u64 {
        self.spins + self.yields + self.sleeps + self.parks
    }

    #[inline]
    pub(super) fn add(&mut self, action: Action) {
        match action {
            Action::Spin => self.spins += 1,
            Action::Yield => self.yields += 1,
            Action::Sleep(_) => self.sleeps += 1,
            Action::Park => self.parks += 1,
        }
    }
}

/// For how long a wait did what.
///
/// ```
/// use manx::wait::FixedSleep;
/// use std::time::Duration;
///
/// let mut wait = FixedSleep::new(Duration::from_micros(50)).start().timed();
/// wait.wait();
/// let times = wait.times();
/// assert!(times.sleeping >= Duration::from_micros(50) && times.total >= times.sleeping);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// In rounds that paused or looked again at once.
    pub spinning: Duration,
    /// In rounds that gave way to others: mostly the time that these ran.
    pub yielding: Duration,
    /// In rounds that slept, for a time or until a signal.
    pub sleeping: Duration,
    /// From the beginning of the first round to the end of the last one. The looks in between are
    /// in here and in none of the others.
    pub total: Duration,
}

/// Whether a [`Backoff`](super::Backoff) measures its rounds: [`Untimed`] or [`Timed`].
///
/// ```
/// use manx::wait::{Backoff, Meter, Spinner, Spin};
///
/// fn one_round<M: Meter>(wait: &mut Backoff<Spinner, M>) {
///     wait.wait();
/// }
/// one_round(&mut Spin.start());
/// one_round(&mut Spin.start().timed());
/// ```
pub trait Meter {
    /// What is remembered from a round's beginning. The loop of a wait uses it, no other package.
    #[doc(hidden)]
    type Began: Copy;
    /// A round begins.
    #[doc(hidden)]
    fn began(&mut self) -> Self::Began;
    /// A round that did `action` has ended.
    #[doc(hidden)]
    fn ended(&mut self, began: Self::Began, action: Action);
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Meter for Untimed {
    type Began = ();

    #[inline(always)]
    fn began(&mut self) {}

    #[inline(always)]
    fn ended(&mut self, (): (), _: Action) {}
}

/// Measures each round by the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timed {
    first_ns: Option<u64>,
    spinning_ns: u64,
    yielding_ns: u64,
    sleeping_ns: u64,
    total_ns: u64,
}

impl Timed {
    /// The time so far.
    pub(super) const fn times(&self) -> Times {
        Times {
            spinning: Duration::from_nanos(self.spinning_ns),
            yielding: Duration::from_nanos(self.yielding_ns),
            sleeping: Duration::from_nanos(self.sleeping_ns),
            total: Duration::from_nanos(self.total_ns),
        }
    }
}

impl Meter for Timed {
    type Began = u64;

    #[inline]
    fn began(&mut self) -> u64 {
        let now_ns = clock::now_ns();
        self.first_ns.get_or_insert(now_ns);
        now_ns
    }

    #[inline]
    fn ended(&mut self, began_ns: u64, action: Action) {
        let now_ns = clock::now_ns();
        let sum_ns = match action {
            Action::Spin => &mut self.spinning_ns,
            Action::Yield => &mut self.yielding_ns,
            Action::Sleep(_) | Action::Park => &mut self.sleeping_ns,
        };
        *sum_ns += now_ns.saturating_sub(began_ns);
        self.total_ns = now_ns.saturating_sub(self.first_ns.unwrap_or(began_ns));
    }
}
