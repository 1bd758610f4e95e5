//! Waiting for a word to change, as the kernel does it, at its worst.
//!
//! A waiter queues, then compares the word; a waker looks at the queue after it changed the word.
//! So either the comparison sees the change or the waker sees the waiter. What the kernel leaves
//! open, chance decides:
//!
//! - *Who is woken.* Any of those who wait, not the first.
//! - *When a timeout ends.* A wait with a limit stays runnable, so that it may end at any point of
//!   the schedule, before a wake-up or after it, and takes the virtual clock to its deadline.
//! - *Interruptions.* One wait in [`INTERRUPTED_ONCE_IN`] ends by a signal handler, at any point
//!   too.
//!
//! A wait that is neither limited nor interrupted blocks by shuttle's `park`. If an algorithm loses
//! its wake-up, it blocks for ever, and shuttle reports a deadlock as soon as nobody else can run
//! either.
//!
//! Invariants:
//! 1. The queues are ordinary memory outside of the model, never locked across a step: no other
//!    thread runs meanwhile.
//! 2. A waiter that was chosen returns [`Outcome::Woken`], whatever else happened to it, so the
//!    number that [`wake`] returns is true: no wake-up ends in a timeout.

use crate::atomic::{AtomicU32, AtomicU64};
use crate::chance::{self, step};
use crate::clock;
pub use crate::deadline::{ANY_SET, Clock, Deadline, Outcome};
pub use crate::queue::upper;
use crate::queue::{Waiter, compare, enter, leave, place, queues};
use crate::thread::yield_now;
use shuttle::thread::{self, Thread};
use std::sync::atomic::Ordering;

/// One wait in this number is interrupted. That is rare enough: most executions have waits without
/// an interrupt, and only these waits find lost wake-ups.
pub const INTERRUPTED_ONCE_IN: u64 = 16;
/// A wait that ends by itself does so after fewer steps of its own than this. Other threads may
/// take any number of steps between two of these.
const STEPS_MAX: u64 = 6;

/// Sleeps while `word` is `expected`, until woken.
pub fn wait(word: &AtomicU32, expected: u32) -> Outcome {
    wait_set(word, expected, ANY_SET, None)
}

/// Sleeps as a member of `set` while `word` is `expected`, until woken, and until the deadline if
/// there is one.
pub fn wait_set(word: &AtomicU32, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    wait_at(word, || word.load(Ordering::SeqCst), expected, set, deadline)
}

/// As [`wait_set`], while the upper 32 bits of `word` are `expected`.
pub fn wait_upper(word: &AtomicU64, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    wait_at(upper(word), || (word.load(Ordering::SeqCst) >> 32) as u32, expected, set, deadline)
}

fn wait_at(
    word: *const AtomicU32,
    look: impl Fn() -> u32,
    expected: u32,
    set: u32,
    deadline: Option<Deadline>,
) -> Outcome {
    let interrupted = chance::once_in(INTERRUPTED_ONCE_IN);
    let end = if interrupted { Some(Outcome::Interrupted) } else { deadline.map(|_| Outcome::TimedOut) };
    let outcome = sleep(word, look, expected, set, end);
    if let (Outcome::TimedOut, Some(deadline)) = (outcome, deadline) {
        clock::reach(deadline.ns);
    }
    outcome
}

/// Sleeps while `word` is `expected`, until woken, for at most `timeout_ns`.
pub fn wait_for(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Outcome {
    wait_until(word, expected, clock::last_ns().saturating_add(timeout_ns))
}

/// Sleeps while `word` is `expected`, until woken, and until [`crate::clock::now_ns`] reaches
/// `deadline_ns`.
pub fn wait_until(word: &AtomicU32, expected: u32, deadline_ns: u64) -> Outcome {
    wait_set(word, expected, ANY_SET, Some(Deadline { clock: Clock::Monotonic, ns: deadline_ns }))
}

/// Sleeps while `word` is `expected`, until woken, or until this end comes.
fn sleep(
    word: *const AtomicU32,
    look: impl Fn() -> u32,
    expected: u32,
    set: u32,
    end: Option<Outcome>,
) -> Outcome {
    // On the way into the kernel others may go first, and find nobody in the queue.
    step();
    let ticket = enter(word, expected, set);
    if !compare(ticket, look()) {
        return if leave(ticket, false) { Outcome::Woken } else { Outcome::Changed };
    }
    let Some(end) = end else {
        while !leave(ticket, true) {
            thread::park();
        }
        return Outcome::Woken;
    };
    for _ in 0..chance::below(STEPS_MAX) {
        if leave(ticket, true) {
            return Outcome::Woken;
        }
        // To yield lets the others go first wherever they can, to step does not: the end comes late
        // or soon.
        if chance::once_in(2) { yield_now() } else { step() }
    }
    if leave(ticket, false) { Outcome::Woken } else { end }
}

/// Wakes at most `count` of the threads that wait at `word`; returns how many it woke.
pub fn wake(word: *const AtomicU32, count: u32) -> usize {
    wake_set(word, count, ANY_SET)
}

/// Wakes at most `count` of the threads that wait at `word` as members of a set in common with
/// `set`; returns how many it woke.
pub fn wake_set(word: *const AtomicU32, count: u32, set: u32) -> usize {
    step();
    wake_some(word, count, |waiter| waiter.set & set != 0)
}

/// Adds 1 to `word` and wakes at most `count` of the threads that wait there, in one step as far as
/// any [`wait`] can tell: none that came for the new value, and none that will find the word
/// changed by others already. Returns how many it woke.
pub fn advance(word: &AtomicU32, count: u32) -> usize {
    let old = word.fetch_add(1, Ordering::SeqCst);
    let older = |waiter: &Waiter| old.wrapping_sub(waiter.expected) <= u32::MAX / 2;
    wake_some(word, count, |waiter| waiter.expected == old || waiter.compared && older(waiter))
}

fn wake_some(word: *const AtomicU32, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
    let woken: Vec<Thread> = {
        let mut queues = queues();
        let here = |waiter: &&mut Waiter| waiter.place == place(word) && wanted(waiter);
        let mut asleep: Vec<&mut Waiter> =
            queues.waiters.iter_mut().filter(here).filter(|waiter| !waiter.woken).collect();
        while asleep.len() > count as usize {
            asleep.swap_remove(chance::below(asleep.len() as u64) as usize);
        }
        asleep.iter_mut().for_each(|waiter| waiter.woken = true);
        asleep.iter().map(|waiter| waiter.thread.clone()).collect()
    };
    // Each of these is a step, so the queues are free by now. A thread that left meanwhile
    // finds a token when it next parks, and looks again.
    woken.iter().for_each(Thread::unpark);
    woken.len()
}

/// Wakes all threads that wait at `word`; returns how many it woke.
pub fn wake_all(word: *const AtomicU32) -> usize {
    wake(word, u32::MAX)
}
