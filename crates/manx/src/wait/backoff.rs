//! One wait, from its first round to its end; and what a policy must bring to be waited by.
//!
//! A policy is shared and outlives its waits ([`Policy`]). A wait is private to a thread and short
//! ([`Waiter`], inside a [`Backoff`]). The engine here counts, and does not know which policy it
//! runs. Counting is an addition in a local variable, which the compiler drops where no code reads
//! it.
//!
//! Invariants:
//! 1. Nothing happens before the first [`Backoff::wait`]: a wait whose condition is already true
//!    costs nothing, and has counted nothing.
//! 2. Every round ends by itself, or by the signal that its policy promises. So the caller always
//!    looks again.

use super::Action;
use core::time::Duration;
use platform::clock::{self, duration_ns};

/// One thread's part in one wait: what is inside of a [`Backoff`]. Each policy of this room has its
/// own.
///
/// ```
/// use manx::wait::{Backoff, Policy, Waiter, Yield};
///
/// /// Waits for this number of rounds.
/// fn rounds(mut wait: Backoff<impl Waiter>, count: u64) {
///     while wait.counts().rounds() < count {
///         wait.wait();
///     }
/// }
/// rounds(Yield.start(), 3);
/// ```
pub trait Waiter {
    /// Waits for one round of at most about `timeout_ns` nanoseconds, and says what it did. Other
    /// packages wait by [`Backoff::wait`].
    #[doc(hidden)]
    fn round(&mut self, timeout_ns: u64) -> Action;
}

/// A way to wait. All policies of this room are one, for functions that take any.
///
/// ```
/// use manx::wait::{Adaptive, Policy, Spin};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// fn await_flag(flag: &AtomicBool, policy: &impl Policy) {
///     policy.until(|| flag.load(Ordering::Acquire));
/// }
/// let flag = AtomicBool::new(true);
/// await_flag(&flag, &Spin);
/// await_flag(&flag, &Adaptive::DEFAULT);
/// ```
pub trait Policy {
    /// What a wait by this policy keeps.
    type Waiter<'a>: Waiter
    where
        Self: 'a;

    /// Begins a wait.
    fn start(&self) -> Backoff<Self::Waiter<'_>>;

    /// Waits until `ready` returns true; it is asked at least once.
    ///
    /// ```
    /// use manx::wait::{Policy, Yield};
    ///
    /// let mut looks = 0;
    /// let counts = Yield.until(|| { looks += 1; looks == 5 });
    /// assert_eq!(counts.rounds(), 4);
    /// ```
    #[inline]
    fn until(&self, mut ready: impl FnMut() -> bool) -> Counts {
        let mut backoff = self.start();
        while !ready() {
            backoff.wait();
        }
        backoff.counts()
    }

    /// Waits until `ready` returns true, or for about `timeout`; returns whether it was. It is
    /// asked at least once, and once more after the time is up.
    ///
    /// ```
    /// use manx::wait::{Adaptive, Policy};
    /// use std::time::Duration;
    ///
    /// assert!(Adaptive::DEFAULT.until_for(Duration::ZERO, || true));
    /// assert!(!Adaptive::DEFAULT.until_for(Duration::from_micros(200), || false));
    /// ```
    #[inline]
    fn until_for(&self, timeout: Duration, mut ready: impl FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        let deadline_ns = clock::now_ns().saturating_add(duration_ns(timeout));
        let mut backoff = self.start();
        loop {
            let now_ns = clock::now_ns();
            if now_ns >= deadline_ns {
                return ready();
            }
            backoff.wait_at_most_ns(deadline_ns - now_ns);
            if ready() {
                return true;
            }
        }
    }
}

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

/// A wait in progress: call [`Backoff::wait`] whenever it is not yet time.
///
/// ```
/// use manx::wait::Spin;
///
/// let mut looks = 0;
/// let mut backoff = Spin.start();
/// while { looks += 1; looks < 10 } {
///     backoff.wait();
/// }
/// assert_eq!(backoff.counts().spins, 9);
/// ```
#[derive(Debug)]
#[must_use = "a wait happens only in `wait`"]
pub struct Backoff<W> {
    waiter: W,
    counts: Counts,
}

impl<W: Waiter> Backoff<W> {
    /// A wait by this waiter. Policies call it.
    #[inline]
    pub(super) const fn new(waiter: W) -> Self {
        Backoff { waiter, counts: Counts { spins: 0, yields: 0, sleeps: 0, parks: 0 } }
    }

    /// Waits for one round, then look again.
    #[inline]
    pub fn wait(&mut self) {
        self.wait_at_most_ns(u64::MAX);
    }

    /// Waits for one round of at most about `timeout`, then look again: a sleep ends no sooner than
    /// the thread's timer slack (50 µs) allows.
    ///
    /// ```
    /// use manx::wait::Adaptive;
    /// use std::time::{Duration, Instant};
    ///
    /// let end = Instant::now() + Duration::from_millis(1);
    /// let mut backoff = Adaptive::DEFAULT.yields(10).start();
    /// while Instant::now() < end {
    ///     backoff.wait_at_most(end.saturating_duration_since(Instant::now()));
    /// }
    /// ```
    #[inline]
    pub fn wait_at_most(&mut self, timeout: Duration) {
        self.wait_at_most_ns(duration_ns(timeout));
    }

    #[inline]
    pub(crate) fn wait_at_most_ns(&mut self, timeout_ns: u64) {
        let action = self.waiter.round(timeout_ns);
        self.counts.add(action);
    }

    /// Returns how often this wait did what, so far.
    #[inline]
    pub const fn counts(&self) -> Counts {
        self.counts
    }
}
