//! One wait for the readers-writer lock: spin, sleep until the window is over, then be starving.
//!
//! The Invariants are those at the head of [`super`].

use super::state::{Kind, READER, READERS, READERS_MAX, Rank, Settled, upper};
use crate::cpu::{refresh_if_old, short_of_cpus};
use crate::lock::bounded::{Acquired, TimedOut, Wait, window_in_epoch, window_ns};
use crate::slo;
use platform::atomic::{AtomicU64, Ordering};
use platform::futex::{self, Clock, Deadline};
use platform::{clock, cpu};

/// How often a waiter looks before it sleeps, with twice as many pauses between two looks each
/// time.
const LOOKS: u32 = 9;
/// The most pauses between two looks, as a power of two.
const PAUSES_LOG_MAX: u32 = 6;
/// The shortest sleep of a waiter that may not count as starving yet.
const RECHECK_NS_MIN: u64 = 50_000;

/// A thread that could not enter at once.
pub(super) struct Waiter<'a> {
    /// The lock's word.
    state: &'a AtomicU64,
    kind: &'static Kind,
    deadline: Option<Deadline>,
    window_ns: u64,
    window_end_ns: u64,
    got: Acquired,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(state: &'a AtomicU64, kind: &'static Kind, wait: &Wait) -> Waiter<'a> {
        // Relaxed: the window's bits never change.
        let own = upper(state.load(Ordering::Relaxed));
        let told_ns = wait.window_ns.or_else(|| window_in_epoch(own, slo::window_ns()));
        let window_ns = told_ns.unwrap_or_else(|| window_ns(own));
        let window_end_ns = clock::now_ns().saturating_add(window_ns);
        Waiter { state, kind, deadline: wait.deadline, window_ns, window_end_ns, got: Acquired::default() }
    }

    pub(super) fn enter(mut self) -> Result<Acquired, TimedOut> {
        refresh_if_old();
        self.spin();
        loop {
            // Relaxed: the steps below check what they find.
            let seen = self.state.load(Ordering::Relaxed);
            if self.rank().may_enter(seen) {
                if self.enter_from(seen) {
                    return Ok(self.got);
                }
                continue;
            }
            if self.deadline.is_some_and(|deadline| deadline.remaining_ns() == 0) {
                self.give_up();
                return Err(TimedOut);
            }
            if !self.got.starving && self.window_is_over() {
                if self.join() {
                    self.spin();
                } else {
                    self.window_end_ns = clock::now_ns() + self.window_ns.max(RECHECK_NS_MIN);
                }
                continue;
            }
            // Invariant 3: `seen` keeps this rank out.
            let flagged = seen | self.rank().asleep;
            if seen == flagged || self.step(seen, flagged, Ordering::Relaxed) {
                self.sleep(upper(flagged));
            }
        }
    }

    fn rank(&self) -> &'static Rank {
        if self.got.starving { &self.kind.starving } else { &self.kind.waits }
    }

    fn step(&self, seen: u64, next: u64, ordering: Ordering) -> bool {
        self.state.compare_exchange(seen, next, ordering, Ordering::Relaxed).is_ok()
    }

    /// Looks a few times more before it costs a system call; not while the process is short of
    /// CPUs.
    fn spin(&self) {
        for look in 0..platform::spin_bound(LOOKS) {
            let seen = self.state.load(Ordering::Relaxed);
            if self.rank().may_enter(seen) || short_of_cpus() {
                return;
            }
            for _ in 0..1 << look.min(PAUSES_LOG_MAX) {
                cpu::pause();
            }
        }
    }

    /// Enters from a state that lets it.
    fn enter_from(&self, seen: u64) -> bool {
        if self.kind.enters == READER && seen & READERS >= READERS_MAX {
            // It unwinds, and must not stay counted.
            self.give_up();
            panic!("a readers-writer lock has 2^21 readers: are guards forgotten in a loop?");
        }
        let settled = Settled::of((self.uncounted(seen) + self.kind.enters) | self.handed_on());
        // Acquire pairs with the release of the earlier holders (Invariant 1).
        let entered = self.step(seen, settled.state, Ordering::Acquire);
        if entered && !settled.wakes.none() {
            // The last starving waiter of its kind is an upgradable reader: it lets readers in.
            settled.wakes.wake(futex::upper(self.state));
        }
        entered
    }

    /// The state without this waiter, if it is counted as starving.
    fn uncounted(&self, seen: u64) -> u64 {
        if self.got.starving { seen - self.kind.starving_one } else { seen }
    }

    /// The flags of the waiters that this thread was perhaps woken for (Invariant 5).
    fn handed_on(&self) -> u64 {
        match (self.got.sleeps, self.got.starving) {
            (0, _) => 0,
            (_, false) => self.kind.hands_on,
            (_, true) => self.kind.hands_on_starving,
        }
    }

    /// Is counted as starving from now on; false if it may not be yet.
    fn join(&mut self) -> bool {
        // Relaxed: it keeps others out, and acquires nothing.
        let joined = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let full = seen & self.kind.starving_all == self.kind.starving_all;
            // Invariant 6.
            (!full && seen & self.kind.joins_unless == 0).then(|| seen + self.kind.starving_one)
        });
        self.got.starving = joined.is_ok();
        self.got.starving
    }

    /// Leaves without the lock; what it may have been woken for is another thread's (Invariant 5).
    fn give_up(&self) {
        loop {
            // Relaxed, here and below: nothing was done under the lock.
            let seen = self.state.load(Ordering::Relaxed);
            let settled = Settled::of(self.uncounted(seen) | self.handed_on());
            if self.step(seen, settled.state, Ordering::Relaxed) {
                settled.wakes.wake(futex::upper(self.state));
                return;
            }
        }
    }

    fn window_is_over(&self) -> bool {
        self.window_end_ns != u64::MAX && clock::now_ns() >= self.window_end_ns
    }

    /// When to wake up to be starving; `None` if that is never, or has been.
    fn window_end(&self) -> Option<Deadline> {
        let bounded = self.window_end_ns != u64::MAX && !self.got.starving;
        bounded.then_some(Deadline { clock: Clock::Monotonic, ns: self.window_end_ns })
    }

    /// Sleeps on this upper half of the state, until the earlier one of its deadline and its
    /// window's end.
    fn sleep(&mut self, upper: u32) {
        let first = match (self.deadline, self.window_end()) {
            (Some(mine), Some(end)) => {
                Some(if mine.remaining_ns() < end.remaining_ns() { mine } else { end })
            }
            (mine, end) => mine.or(end),
        };
        let outcome = futex::wait_upper(self.state, upper, self.rank().set, first);
        if outcome == futex::Outcome::Woken {
            self.got.sleeps += 1;
        }
    }
}
