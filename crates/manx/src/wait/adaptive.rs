//! The adaptive policy: spin a little, yield for a while, then sleep in growing steps up to a
//! ceiling.
//!
//! The repair that Andreoli and Cucinotta propose for unsafe busy waiting in a storage engine
//! ("Inducing Huge Tail Latency on a MongoDB deployment", section II-B), and that the engine uses
//! elsewhere under the name of spin back-off. Short waits end while spinning, as fast as ever. If
//! the thread waited for is ready on this very CPU, a yield lets it run. If neither helped, the
//! wait is long or the machine is full, and sleeping costs little compared with what is lost
//! already; the ceiling bounds how late the end is noticed.
//!
//! | rounds, from 0 | action |
//! | --- | --- |
//! | the first `spins` | spin |
//! | the next `yields` | yield |
//! | the k-th after these, from 1 | sleep for `k * step`, at most `ceiling` |
//!
//! Two things shorten the way to sleep. Spinning ends at once when the process is short of CPUs
//! ([`short_of_cpus`]); and under a real-time class, where yields let no ordinary thread run, sleep
//! comes right after spinning.

use super::{Action, Backoff, Policy, Waiter, short_of_cpus};
use crate::cpu::refresh_if_old;
use core::time::Duration;
use platform::clock::duration_ns;
use platform::thread;

/// The adaptive policy: spins a little, then yields, then sleeps for longer and longer. It stops
/// spinning at once while the process is short of CPUs.
///
/// Source: Andreoli and Cucinotta's study of WiredTiger, whose numbers [`Adaptive::DEFAULT`] has.
///
/// ```
/// use manx::wait::{Action, Adaptive, Policy};
/// use std::time::Duration;
///
/// const CEILING: Duration = Duration::from_millis(5);
/// const PATIENT: Adaptive = Adaptive::DEFAULT.spins(0).yields(50).ceiling(CEILING);
/// assert_eq!(PATIENT.action(49), Action::Yield);
/// assert_eq!(PATIENT.action(50), Action::Sleep(Duration::from_micros(100)));
/// assert_eq!(PATIENT.action(1_000), Action::Sleep(CEILING));
/// assert_eq!(PATIENT.until(|| true).rounds(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptive {
    /// Rounds of spinning.
    spins: u32,
    /// Rounds of yielding, after those.
    yields: u32,
    /// How much longer each sleep is than the one before, and how long the first one is.
    step_ns: u64,
    /// How long a sleep is at most.
    ceiling_ns: u64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Adaptive::DEFAULT
    }
}

impl Adaptive {
    /// WiredTiger's numbers: 10 spins, 1000 yields, sleeps of +100 µs up to 1 ms.
    pub const DEFAULT: Adaptive = Adaptive::of_ns(10, 1000, 100_000, 1_000_000);

    /// All four numbers, the times in nanoseconds: for the package `preload`, which makes a policy
    /// at each look.
    #[doc(hidden)]
    #[inline]
    pub const fn of_ns(spins: u32, yields: u32, step_ns: u64, ceiling_ns: u64) -> Adaptive {
        Adaptive { spins, yields, step_ns, ceiling_ns }
    }

    /// Sets the number of rounds that spin.
    pub const fn spins(self, spins: u32) -> Self {
        Adaptive { spins, ..self }
    }

    /// Sets the number of rounds that yield, after those that spin. Use 0 for a thread of a
    /// real-time class.
    pub const fn yields(self, yields: u32) -> Self {
        Adaptive { yields, ..self }
    }

    /// Sets the first sleep, and by how much each sleep is longer than the one before.
    pub const fn step(self, step: Duration) -> Self {
        Adaptive { step_ns: duration_ns(step), ..self }
    }

    /// Sets the longest sleep.
    pub const fn ceiling(self, ceiling: Duration) -> Self {
        Adaptive { ceiling_ns: duration_ns(ceiling), ..self }
    }

    /// What to do in round `round` of a wait, counted from 0.
    ///
    /// The whole policy is in this function, for a caller that counts the rounds itself (a waiter
    /// in a loop of other code). It cannot panic, allocates nothing and overflows nowhere: a
    /// counter that stays at `u32::MAX` goes on sleeping (or doing whatever lasts that long). It
    /// never parks.
    ///
    /// ```
    /// use manx::wait::{Action, Adaptive};
    /// use std::time::Duration;
    ///
    /// let action = |round| Adaptive::DEFAULT.action(round);
    /// assert_eq!([action(0), action(9)], [Action::Spin; 2]);
    /// assert_eq!([action(10), action(1009)], [Action::Yield; 2]);
    /// assert_eq!(action(1010), Action::Sleep(Duration::from_micros(100)));
    /// assert_eq!(action(1019), Action::Sleep(Duration::from_millis(1)));
    /// assert_eq!(action(u32::MAX), Action::Sleep(Duration::from_millis(1)));
    /// ```
    #[inline]
    pub const fn action(&self, round: u32) -> Action {
        if round < self.spins {
            return Action::Spin;
        }
        let round = round.wrapping_sub(self.spins);
        if round < self.yields {
            return Action::Yield;
        }
        let sleep = round.wrapping_sub(self.yields) as u64 + 1;
        let ns = self.step_ns.saturating_mul(sleep);
        Action::Sleep(Duration::from_nanos(if ns < self.ceiling_ns { ns } else { self.ceiling_ns }))
    }

    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<AdaptiveWaiter> {
        let spins = platform::spin_bound(self.spins);
        let policy = Adaptive { spins, ..*self };
        Backoff::new(AdaptiveWaiter { policy, round: 0, class_known: false })
    }
}

impl Policy for Adaptive {
    type Waiter<'a> = AdaptiveWaiter;

    #[inline]
    fn start(&self) -> Backoff<AdaptiveWaiter> {
        Adaptive::start(self)
    }
}

/// A thread that waits by [`Adaptive`].
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveWaiter {
    /// The policy, as far as it suits this thread: see `class_known`.
    policy: Adaptive,
    round: u32,
    /// The thread's scheduling class was asked for, and `policy.yields` is 0 if it is a real-time
    /// class. Once a wait, before its first yield.
    class_known: bool,
}

impl Waiter for AdaptiveWaiter {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        if self.round < self.policy.spins && short_of_cpus() {
            self.round = self.policy.spins;
        }
        let mut action = self.policy.action(self.round);
        if !matches!(action, Action::Spin) {
            if matches!(action, Action::Yield) && !self.class_known {
                action = self.first_yield();
            }
            // For the next waits: this one is through with spinning.
            refresh_if_old();
        }
        action.perform(timeout_ns);
        self.round = self.round.saturating_add(1);
        action
    }
}

impl AdaptiveWaiter {
    #[cold]
    fn first_yield(&mut self) -> Action {
        self.class_known = true;
        if thread::scheduling_class().yields_only_to_equals() {
            self.policy.yields = 0;
        }
        self.policy.action(self.round)
    }
}
