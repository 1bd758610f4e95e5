//! Waiting for a word to change, as the kernel does it.
//!
//! The kernel queues a waiter, then compares the word, and a waker looks at the queue after it
//! changed the word; full barriers stand between the two on either side. So either the comparison
//! sees the change or the waker sees the waiter. The same here: the queue itself is ordinary memory
//! outside of the model (one thread runs at a time, and nothing switches threads while it is
//! locked), the comparison and the barriers are loom's, and a waiter blocks by loom's `park`. If an
//! algorithm loses a wake-up, its waiter blocks for ever, and loom reports a deadlock.
//!
//! A timeout is a race that the clock may win at any time. Here it wins at once, after others went
//! first: a wait with a timeout never helps a lost wake-up to be found, one without does.

use crate::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub use crate::deadline::{ANY_SET, Clock, Deadline, Outcome};
pub use crate::queue::upper;
use crate::queue::{Waiter, compare, enter, leave, place, queues};
use loom::thread;

/// Sleeps while `word` is `expected`, until woken.
pub fn wait(word: &AtomicU32, expected: u32) -> Outcome {
    sleep(word, || word.load(Ordering::Relaxed), expected, ANY_SET)
}

/// Sleeps as a member of `set` while `word` is `expected`, until woken, and until the deadline if
/// there is one.
pub fn wait_set(word: &AtomicU32, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    match deadline {
        Some(deadline) => wait_for(word, expected, deadline.remaining_ns()),
        None => sleep(word, || word.load(Ordering::Relaxed), expected, set),
    }
}

/// As [`wait_set`], while the upper 32 bits of `word` are `expected`.
pub fn wait_upper(word: &AtomicU64, expected: u32, set: u32, deadline: Option<Deadline>) -> Outcome {
    match deadline {
        Some(deadline) => {
            time_out(upper_half(word.load(Ordering::SeqCst)), expected, deadline.remaining_ns())
        }
        None => sleep(upper(word), || upper_half(word.load(Ordering::Relaxed)), expected, set),
    }
}

fn upper_half(value: u64) -> u32 {
    (value >> 32) as u32
}

fn sleep(word: *const AtomicU32, look: impl Fn() -> u32, expected: u32, set: u32) -> Outcome {
    // On the way into the kernel others may go first, and find nobody in the queue.
    look();
    let ticket = enter(word, expected, set);
    fence(Ordering::SeqCst);
    if !compare(ticket, look()) {
        return if leave(ticket, false) { Outcome::Woken } else { Outcome::Changed };
    }
    while !leave(ticket, true) {
        thread::park();
    }
    Outcome::Woken
}

/// Sleeps while `word` is `expected`, until woken, for at most `timeout_ns`.
pub fn wait_for(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Outcome {
    time_out(word.load(Ordering::SeqCst), expected, timeout_ns)
}

fn time_out(seen: u32, expected: u32, timeout_ns: u64) -> Outcome {
    if seen != expected {
        return Outcome::Changed;
    }
    crate::thread::sleep_ns(timeout_ns);
    Outcome::TimedOut
}

/// Sleeps while `word` is `expected`, until woken, and until [`crate::clock::now_ns`] reaches
/// `deadline_ns`.
pub fn wait_until(word: &AtomicU32, expected: u32, deadline_ns: u64) -> Outcome {
    wait_for(word, expected, deadline_ns.saturating_sub(crate::clock::now_ns()))
}

/// Wakes at most `count` of the threads that wait at `word`; returns how many it woke.
pub fn wake(word: *const AtomicU32, count: u32) -> usize {
    wake_set(word, count, ANY_SET)
}

/// Wakes at most `count` of the threads that wait at `word` as members of a set in common with
/// `set`; returns how many it woke.
pub fn wake_set(word: *const AtomicU32, count: u32, set: u32) -> usize {
    fence(Ordering::SeqCst);
    wake_some(word, count, |waiter| waiter.set & set != 0)
}

/// Adds 1 to `word` and wakes at most `count` of the threads that wait there, in one step as far as
/// any [`wait`] can tell: none that came for the new value, and none that will find the word
/// changed by others already. Returns how many it woke.
pub fn advance(word: &AtomicU32, count: u32) -> usize {
    let old = word.fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let older = |waiter: &Waiter| old.wrapping_sub(waiter.expected) <= u32::MAX / 2;
    let woken = wake_some(word, count, |waiter| waiter.expected == old || waiter.compared && older(waiter));
    for waiter in &mut queues().waiters {
        let late = waiter.place == place(word) && !waiter.compared && older(waiter);
        waiter.changed |= late && waiter.expected != old;
    }
    woken
}

fn wake_some(word: *const AtomicU32, count: u32, wanted: impl Fn(&Waiter) -> bool) -> usize {
    let mut queues = queues();
    let mut woken = 0;
    for waiter in &mut queues.waiters {
        if waiter.place == place(word) && wanted(waiter) && !waiter.woken && woken < count as usize {
            waiter.woken = true;
            waiter.thread.unpark();
            woken += 1;
        }
    }
    woken
}

/// Wakes all threads that wait at `word`; returns how many it woke.
pub fn wake_all(word: *const AtomicU32) -> usize {
    wake(word, u32::MAX)
}
