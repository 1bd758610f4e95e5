//! Waiting for a word to change, as the kernel does it.
//!
//! One loom mutex stands for the kernel's lock on the queues of all futexes, and each address has a
//! condition variable. [`wait`] compares and queues itself under the mutex, so a waker that changed the
//! word before it took the mutex either is seen by the comparison or finds the waiter queued: the
//! kernel's own argument, and no more than it. If an algorithm loses a wake-up, its waiter sleeps for
//! ever, and loom reports a deadlock.
//!
//! A timeout is a race that the clock may win at any time. Here it wins at once, after others went first:
//! a wait with a timeout never helps a lost wake-up to be found, one without does.

use crate::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use std::collections::BTreeMap;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Somebody woke this thread.
    Woken,
    /// The time was up.
    TimedOut,
    /// The word had another value to begin with.
    Changed,
    /// A signal handler ran.
    Interrupted,
}

/// Those who wait at one address.
struct Queue {
    sleepers: u32,
    /// Wake-ups that were granted and not yet consumed: the condition that the condition variable needs,
    /// because a waiter must not take a wake-up that came before it slept.
    granted: u32,
    bell: Arc<Condvar>,
}

crate::global! {
    static QUEUES: Mutex<BTreeMap<usize, Queue>> = Mutex::new(BTreeMap::new());
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Sleeps while `word` is `expected`, until woken.
pub fn wait(word: &AtomicU32, expected: u32) -> Outcome {
    let place = address(word);
    let mut queues = QUEUES.lock().expect("no thread panics with the queues locked");
    // SeqCst: the kernel reads the word behind a full barrier, under its lock.
    if word.load(Ordering::SeqCst) != expected {
        return Outcome::Changed;
    }
    let queue = queues.entry(place).or_insert_with(|| Queue {
        sleepers: 0,
        granted: 0,
        bell: Arc::new(Condvar::new()),
    });
    queue.sleepers += 1;
    let bell = Arc::clone(&queue.bell);
    loop {
        queues = bell.wait(queues).expect("no thread panics with the queues locked");
        let queue = queues.get_mut(&place).expect("a queue stays while somebody sleeps in it");
        if queue.granted > 0 {
            queue.granted -= 1;
            return Outcome::Woken;
        }
    }
}

/// Sleeps while `word` is `expected`, until woken, for at most `timeout_ns`.
pub fn wait_for(word: &AtomicU32, expected: u32, timeout_ns: u64) -> Outcome {
    if word.load(Ordering::SeqCst) != expected {
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
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    let mut queues = QUEUES.lock().expect("no thread panics with the queues locked");
    let Some(queue) = queues.get_mut(&address(word)) else { return 0 };
    let woken = count.min(queue.sleepers);
    queue.sleepers -= woken;
    queue.granted += woken;
    for _ in 0..woken {
        queue.bell.notify_one();
    }
    woken as usize
}

/// Wakes all threads that wait at `word`; returns how many it woke.
pub fn wake_all(word: &AtomicU32) -> usize {
    wake(word, u32::MAX)
}
