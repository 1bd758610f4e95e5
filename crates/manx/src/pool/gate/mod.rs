//! Gates: workers of pools that are not ours follow the CPU budget too.
//!
//! rayon and tokio start a thread for each CPU that they see, and keep these threads. A gate beside
//! such a pool parks workers while more of them are active than there are CPUs for them, and lets
//! them continue when there are CPUs again. The pool's tasks do not notice this. A worker can be
//! parked only where it takes the next task, so a gate gives the pool tasks of its own: *checks*. A
//! worker that runs a check while too many workers are active parks in the check. How a check gets
//! to a worker, and what a worker must not hold when it parks, differ between pools: see
//! `gate/rayon.rs` and `gate/tokio.rs`. This file has their common part, the count.
//!
//! | word | meaning |
//! | --- | --- |
//! | `state`, low half | *allowed*: the number of workers that may be active |
//! | `state`, high half | *parked*: the number of workers that are held back |
//! | `calls` | counts calls: a futex, on which the parked sleep |
//!
//! Invariants:
//! 1. At most `workers - allowed` workers are parked by their own decision: parking is one step of
//!    the whole word, and so is leaving. So `allowed` workers are left to the pool, and there is at
//!    least one: no task waits for a parked worker alone.
//! 2. A thread that raises `allowed` then adds to `calls` and wakes as many workers as may go on
//!    now. A worker that sleeps has read `calls` before it looked whether it may go on. So no
//!    worker sleeps through its call.
//! 3. A closed gate parks no worker and lets all workers go; it is never opened again.
//!
//! # Memory orderings
//! All changes of `state` are sequentially consistent read-modify-writes: a check that finds
//! nothing to do and a number that was lowered at the same time must not miss each other (Dekker's
//! pattern, with the count of checks that are under way on the other side). `calls` is raised with
//! release and read with acquire, so a worker that saw the call also sees the new `state`. No other
//! memory depends on these words: tasks exchange data through their pools.

use platform::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use platform::futex::{self, Deadline};
use std::time::Duration;

platform::os_only! {
    mod follow;
    #[cfg(feature = "rayon")]
    pub mod rayon;
    #[cfg(feature = "tokio")]
    pub mod tokio;

    pub use follow::{FOLLOW_IDLE_MS, FOLLOW_MS, Follower};
}

const PARKED: u64 = 1 << 32;

fn allowed_of(state: u64) -> u32 {
    state as u32
}

fn parked_of(state: u64) -> u32 {
    (state >> 32) as u32
}

/// Which of the parked workers is called first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// The worker has begun a job for which its pool may wait.
    Urgent,
    /// The worker has begun no job.
    Free,
}

impl Rank {
    /// The bit set of the futex on which a worker of this rank waits.
    const fn set(self) -> u32 {
        match self {
            Rank::Urgent => 1,
            Rank::Free => 2,
        }
    }
}

/// How the wait of a parked worker has ended.
///
/// ```
/// use manx::pool::gate::{Gate, Rank, Stay};
/// use std::time::Duration;
///
/// let gate = Gate::new(2);
/// gate.set_active(1);
/// assert!(gate.try_park());
/// assert_eq!(gate.stay(Rank::Free, Some(Duration::ZERO)), Stay::TimedOut);
/// assert_eq!(gate.parked(), 1);
/// gate.step_out();
/// assert_eq!(gate.parked(), 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a worker that was not called is still parked"]
pub enum Stay {
    /// The worker may go on, and is no longer counted as parked.
    Called,
    /// The timeout is over; the worker is still counted as parked.
    TimedOut,
}

/// The gate of one pool.
///
/// The modules `rayon` and `tokio` (features of the same names) make the checks that park the
/// workers of these pools. A pool of another kind does the same with [`try_park`](Gate::try_park)
/// and [`stay`](Gate::stay).
///
/// ```
/// use manx::pool::gate::{Gate, Rank, Stay};
///
/// let gate = Gate::new(4);
/// assert_eq!(gate.set_active(3), 1); // one worker should park
/// assert!(gate.try_park());
/// assert!(!gate.try_park());
/// gate.set_active(4);
/// assert_eq!(gate.stay(Rank::Free, None), Stay::Called);
/// ```
#[derive(Debug)]
pub struct Gate {
    state: AtomicU64,
    calls: AtomicU32,
    closed: AtomicU32,
    workers: u32,
}

impl Gate {
    /// Returns a gate for `workers` workers; all of them may be active.
    pub fn new(workers: usize) -> Gate {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Gate {
            state: AtomicU64::new(u64::from(workers)),
            calls: AtomicU32::new(0),
            closed: AtomicU32::new(0),
            workers,
        }
    }

    /// How many workers the pool has.
    pub fn workers(&self) -> usize {
        self.workers as usize
    }

    /// How many workers may be active.
    pub fn active(&self) -> usize {
        // Relaxed, here and below: the number is only shown.
        allowed_of(self.state.load(Ordering::Relaxed)) as usize
    }

    /// How many workers are parked now.
    pub fn parked(&self) -> usize {
        parked_of(self.state.load(Ordering::Relaxed)) as usize
    }

    /// Allows `workers` workers to be active, at least 1. Calls the workers that may go on; returns
    /// how many more workers should park now.
    pub fn set_active(&self, workers: usize) -> usize {
        let wanted = u32::try_from(workers).unwrap_or(u32::MAX).clamp(1, self.workers);
        // Relaxed: the exchange checks it.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let wanted = if self.is_closed() { self.workers } else { wanted };
            let next = state & !u64::from(u32::MAX) | u64::from(wanted);
            // SeqCst: see the header.
            match self.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    let before = allowed_of(state);
                    if wanted > before {
                        self.call(wanted - before);
                    }
                    return (self.workers - wanted).saturating_sub(parked_of(next)) as usize;
                }
                Err(now) => state = now,
            }
        }
    }

    /// Wakes `count` of the parked workers, those of `Rank::Urgent` first.
    fn call(&self, count: u32) {
        // Release: by Invariant 2.
        self.calls.fetch_add(1, Ordering::Release);
        let woken = futex::wake_set(&self.calls, count, Rank::Urgent.set()) as u32;
        if woken < count {
            futex::wake_set(&self.calls, count - woken, Rank::Free.set());
        }
    }

    /// Lets all workers continue. The gate parks no worker any more.
    ///
    /// ```
    /// use manx::pool::gate::{Gate, Rank, Stay};
    ///
    /// let gate = Gate::new(2);
    /// gate.set_active(1);
    /// assert!(gate.try_park());
    /// gate.close();
    /// assert_eq!(gate.stay(Rank::Free, None), Stay::Called);
    /// assert!(!gate.try_park());
    /// ```
    pub fn close(&self) {
        self.closed.store(1, Ordering::SeqCst);
        // If another `set_active` did not see yet that the gate is closed, its number is
        // overwritten below. A worker that parks at the same time sees the call.
        fence(Ordering::SeqCst);
        self.set_active(self.workers as usize);
        self.nudge();
    }

    /// Whether the gate was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst) != 0
    }

    /// Parks the calling worker, if too many are active; it has to [`stay`](Gate::stay) then, or to
    /// [`step_out`](Gate::step_out).
    pub fn try_park(&self) -> bool {
        let wants = |state: u64| {
            let fewer = parked_of(state) < self.workers - allowed_of(state).min(self.workers);
            (fewer && !self.is_closed()).then(|| state + PARKED)
        };
        // SeqCst: this check sees every number that was lowered before it.
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, wants).is_ok()
    }

    /// Lets a parked worker go on, if there is room for it.
    fn try_leave(&self) -> bool {
        let may = |state: u64| {
            let more = parked_of(state) > self.workers - allowed_of(state).min(self.workers);
            (more || self.is_closed()).then(|| state - PARKED)
        };
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, may).is_ok()
    }

    /// Keeps a worker that has parked, until it is called or the timeout is over. `None` is no
    /// timeout.
    pub fn stay(&self, rank: Rank, timeout: Option<Duration>) -> Stay {
        self.stay_unless(rank, timeout, || false)
    }

    /// As [`stay`](Gate::stay), or until `gives_up` returns true, which counts as a timeout. The
    /// function is called at first, and after each call and [`nudge`](Gate::nudge).
    ///
    /// ```
    /// use manx::pool::gate::{Gate, Rank, Stay};
    ///
    /// let gate = Gate::new(2);
    /// gate.set_active(1);
    /// assert!(gate.try_park());
    /// let has_work = || true;
    /// if gate.stay_unless(Rank::Urgent, None, has_work) == Stay::TimedOut {
    ///     gate.step_out();
    /// }
    /// assert_eq!(gate.parked(), 0);
    /// ```
    pub fn stay_unless(&self, rank: Rank, timeout: Option<Duration>, gives_up: impl Fn() -> bool) -> Stay {
        let until = timeout.map(Deadline::after);
        loop {
            // Acquire, and before the look: Invariant 2.
            let calls = self.calls.load(Ordering::Acquire);
            if self.try_leave() {
                return Stay::Called;
            }
            if gives_up() || until.is_some_and(|until| until.remaining_ns() == 0) {
                return Stay::TimedOut;
            }
            futex::wait_set(&self.calls, calls, rank.set(), until);
        }
    }

    /// Makes all parked workers check again whether they may continue.
    pub fn nudge(&self) {
        self.call(u32::MAX);
    }

    /// Lets a worker that has parked go on although it was not called. Another worker should park
    /// in its place.
    pub fn step_out(&self) {
        self.state.fetch_sub(PARKED, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_park_as_are_too_many_and_one_never_does() {
        let gate = Gate::new(4);
        assert!(!gate.try_park());
        assert_eq!(gate.set_active(0), 3);
        assert_eq!((0..9).filter(|_| gate.try_park()).count(), 3);
        assert_eq!((gate.active(), gate.parked()), (1, 3));
        assert_eq!(gate.stay(Rank::Free, Some(Duration::ZERO)), Stay::TimedOut);
        assert_eq!(gate.set_active(2), 0);
        assert_eq!(gate.stay(Rank::Free, None), Stay::Called);
        assert_eq!(gate.stay(Rank::Urgent, Some(Duration::ZERO)), Stay::TimedOut);
        gate.step_out();
        assert!(gate.try_park(), "in the place of the worker that stepped out");
        gate.close();
        assert_eq!([gate.stay(Rank::Free, None), gate.stay(Rank::Free, None)], [Stay::Called; 2]);
        assert_eq!((gate.set_active(1), gate.try_park(), gate.parked()), (0, false, 0));
    }

    #[test]
    fn threads_park_and_come_back() {
        let gate = Gate::new(3);
        gate.set_active(1);
        std::thread::scope(|scope| {
            let parked: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        assert!(gate.try_park());
                        gate.stay(Rank::Free, None)
                    })
                })
                .collect();
            while gate.parked() < 2 {
                std::thread::yield_now();
            }
            gate.set_active(3);
            for thread in parked {
                assert_eq!(thread.join().expect("called"), Stay::Called);
            }
        });
        assert_eq!(gate.parked(), 0);
    }
}
