//! One wait for the readers-writer lock: spin, sleep until the window is over, then be overdue.
//!
//! What it has to keep to are Invariants 2 to 5 at the head of [`super`].

use super::RawRwLock;
use super::state::{Kind, READER_GATE, READERS_LIMIT, READERS_TURN};
use crate::cpu::{refresh_if_old, short_of_cpus};
use crate::lock::bounded::{Acquired, TimedOut, WINDOW_NS, Wait};
use platform::atomic::{Ordering, fence};
use platform::futex::{self, Clock, Deadline};
use platform::{clock, cpu};

/// How often a waiter looks before it sleeps, with twice as many pauses between two looks each time.
const LOOKS: u32 = 9;
/// The most pauses between two looks, as a power of two.
const PAUSES_LOG_MAX: u32 = 6;
/// How long a waiter sleeps at least that may not be overdue yet.
const PATIENCE_NS_MIN: u64 = 50_000;

/// A thread that could not enter at once.
pub(super) struct Waiter<'a> {
    lock: &'a RawRwLock,
    kind: &'static Kind,
    deadline: Option<Deadline>,
    window_ns: u64,
    window_end_ns: u64,
    got: Acquired,
}

impl<'a> Waiter<'a> {
    pub(super) fn new(lock: &'a RawRwLock, kind: &'static Kind, wait: &Wait) -> Waiter<'a> {
        let window_ns = wait.window_ns.unwrap_or(WINDOW_NS);
        let window_end_ns = clock::now_ns().saturating_add(window_ns);
        Waiter { lock, kind, deadline: wait.deadline, window_ns, window_end_ns, got: Acquired::default() }
    }

    pub(super) fn enter(mut self) -> Result<Acquired, TimedOut> {
        refresh_if_old();
        self.spin();
        loop {
            // Acquire, and before the look at `word`: Invariant 2.
            let side = self.lock.side.load(Ordering::Acquire);
            let seen = self.lock.word.load(Ordering::Relaxed);
            if self.kind.may_enter(seen, self.got.overdue) {
                if self.enter_from(seen) {
                    return Ok(self.got);
                }
                continue;
            }
            if self.deadline.is_some_and(|deadline| deadline.left_ns() == 0) {
                self.give_up();
                return Err(TimedOut);
            }
            if self.got.overdue {
                // Somebody may have opened the gate before this waiter was counted (Invariant 4).
                if seen & self.kind.gate == 0 {
                    self.lock.word.fetch_or(self.kind.gate, Ordering::Relaxed);
                } else {
                    self.sleep(side, self.kind.overdue, None);
                }
                continue;
            }
            if self.window_is_over() {
                if self.join(seen) {
                    self.spin();
                } else {
                    self.window_end_ns = clock::now_ns() + self.window_ns.max(PATIENCE_NS_MIN);
                }
                continue;
            }
            let flag = self.kind.sleeps;
            let flagged = seen & flag != 0
                || self
                    .lock
                    .word
                    .compare_exchange(seen, seen | flag, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if flagged {
                self.sleep(side, self.kind.asleep, self.window_end());
            }
        }
    }

    /// Looks a few times more before it costs a system call; not while the process is short of CPUs.
    fn spin(&self) {
        for look in 0..platform::spin_bound(LOOKS) {
            let seen = self.lock.word.load(Ordering::Relaxed);
            if self.kind.may_enter(seen, self.got.overdue) || short_of_cpus() {
                return;
            }
            for _ in 0..1 << look.min(PAUSES_LOG_MAX) {
                cpu::pause();
            }
        }
    }

    /// Enters from a state that lets it.
    fn enter_from(&self, seen: u32) -> bool {
        assert!(
            seen < READERS_LIMIT,
            "a readers-writer lock has 2^25 readers: are guards forgotten in a loop?"
        );
        // Invariant 3: a writer that has slept was perhaps woken for others too.
        let behind = if self.got.sleeps > 0 { self.kind.leaves_behind } else { 0 };
        let entered = (seen + self.kind.enters) | behind;
        // Acquire pairs with the release of those who held it (Invariant 1).
        let step = self.lock.word.compare_exchange(seen, entered, Ordering::Acquire, Ordering::Relaxed);
        if step.is_ok() && self.got.overdue {
            self.uncount();
        }
        step.is_ok()
    }

    /// Is counted as overdue from now on, and closes its gate; false if it may not be yet.
    fn join(&mut self, seen: u32) -> bool {
        if seen & READERS_TURN != 0 && self.kind.gate == READER_GATE {
            // Invariant 5.
            return false;
        }
        let side = &self.lock.side;
        let one_more = |seen: u32| {
            let full = seen & self.kind.overdue_all == self.kind.overdue_all;
            (!full).then(|| seen + self.kind.overdue_one)
        };
        // Relaxed, here and below: the fence is what orders it against `settle`.
        if side.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        self.lock.word.fetch_or(self.kind.gate, Ordering::Relaxed);
        self.got.overdue = true;
        true
    }

    /// Is overdue no more: it has entered, or gives up.
    fn uncount(&self) {
        // Relaxed: see `settle`.
        let before = self.lock.side.fetch_sub(self.kind.overdue_one, Ordering::Relaxed);
        if before & self.kind.overdue_all == self.kind.overdue_one {
            self.lock.settle(self.kind);
        }
    }

    /// Leaves without the lock; what it may have been woken for is somebody else's.
    fn give_up(&self) {
        if self.got.sleeps > 0 && self.kind.leaves_behind != 0 {
            // Invariant 3.
            self.lock.word.fetch_or(self.kind.leaves_behind, Ordering::Relaxed);
        }
        if self.got.overdue {
            self.uncount();
        }
        self.lock.pass_on();
    }

    fn window_is_over(&self) -> bool {
        self.window_end_ns != u64::MAX && clock::now_ns() >= self.window_end_ns
    }

    /// When to wake up to be overdue; `None` if that is never.
    fn window_end(&self) -> Option<Deadline> {
        let bounded = self.window_end_ns != u64::MAX;
        bounded.then_some(Deadline { clock: Clock::Monotonic, ns: self.window_end_ns })
    }

    /// Sleeps on this value of `side`, until the earlier one of its deadline and `end`.
    fn sleep(&mut self, side: u32, sets: u32, end: Option<Deadline>) {
        let first = match (self.deadline, end) {
            (Some(mine), Some(end)) => Some(if mine.left_ns() < end.left_ns() { mine } else { end }),
            (mine, end) => mine.or(end),
        };
        if futex::wait_set(&self.lock.side, side, sets, first) == futex::Outcome::Woken {
            self.got.sleeps += 1;
        }
    }
}
