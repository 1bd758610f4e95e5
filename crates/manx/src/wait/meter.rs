//! How often a wait did what, and for how long.
//!
//! Counting is an addition in a local variable, which the compiler drops where no code reads it.
//! Time needs a clock twice a round, so it is measured only by a [`Backoff`](super::Backoff) that
//! was asked to, and that is another type: [`Untimed`] is empty.

use super::Action;
use platform::clock;

/// How often a wait did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// All rounds.
    pub const fn rounds(&self) -> u64 {
        self.spins + self.yields + self.sleeps + self.parks
    }

    #[inline]
    pub(super) fn add(&mut self, action: Action) {
        match action {
            Action::Spin => self.spins += 1,
            Action::Yield => self.yields += 1,
            Action::Sleep { .. } => self.sleeps += 1,
            Action::Park => self.parks += 1,
        }
    }
}

/// For how long a wait did what, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// In rounds that paused or looked again at once.
    pub spinning_ns: u64,
    /// In rounds that gave way to others: mostly the time that these ran.
    pub yielding_ns: u64,
    /// In rounds that slept, for a time or until a signal.
    pub sleeping_ns: u64,
    /// From the beginning of the first round to the end of the last one. The looks in between are
    /// in here and in none of the others.
    pub total_ns: u64,
}

/// What a [`Backoff`](super::Backoff) does around each round.
pub trait Meter {
    /// What is remembered from a round's beginning.
    type Began: Copy;
    /// A round begins.
    fn began(&mut self) -> Self::Began;
    /// A round that did `action` has ended.
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
    times: Times,
}

impl Timed {
    /// The time so far.
    pub const fn times(&self) -> Times {
        self.times
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
            Action::Spin => &mut self.times.spinning_ns,
            Action::Yield => &mut self.times.yielding_ns,
            Action::Sleep { .. } | Action::Park => &mut self.times.sleeping_ns,
        };
        *sum_ns += now_ns.saturating_sub(began_ns);
        self.times.total_ns = now_ns.saturating_sub(self.first_ns.unwrap_or(began_ns));
    }
}
