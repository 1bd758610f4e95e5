//! What the tests of the waiting room share: a lock made of a flag and a policy, and threads by the
//! number.

#![allow(dead_code, reason = "each test uses a part of it")]

use manx_shuttle::wait::Policy;
use platform::thread::{self, JoinHandle};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::ops::Deref;
use std::time::Duration;

/// A lock made of a flag and a policy that is signalled, and a count of those inside.
pub struct Lock<P> {
    pub taken: AtomicBool,
    inside: AtomicU32,
    passed: AtomicU32,
    pub freed: P,
}

impl<P: Policy> Lock<P> {
    pub fn new(freed: P) -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        Arc::new(Lock { taken: AtomicBool::new(false), inside: zero(), passed: zero(), freed })
    }

    pub fn try_lock(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Takes the lock, and gives it back.
    pub fn with(&self, signal: impl Fn(&P)) {
        self.freed.until(|| self.try_lock());
        self.unlock(signal);
    }

    /// Takes the lock and gives it back, unless that takes longer than this; returns whether it
    /// took it.
    pub fn with_in(&self, timeout: Duration, signal: impl Fn(&P)) -> bool {
        let taken = self.freed.until_for(timeout, || self.try_lock());
        if taken {
            self.unlock(signal);
        }
        taken
    }

    fn unlock(&self, signal: impl Fn(&P)) {
        assert_eq!(self.inside.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
        self.inside.fetch_sub(1, Ordering::Relaxed);
        self.passed.fetch_add(1, Ordering::Relaxed);
        self.taken.store(false, Ordering::Release);
        signal(&self.freed);
    }

    /// How often it was taken by one of the above.
    pub fn passed(&self) -> u32 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Every second of `threads` takes the lock in each of `rounds`, and the others do so unless that
/// takes longer than `timeout`. Neither the lock nor a wake-up is lost.
pub fn some_give_up<P: Policy + Send + Sync + 'static>(
    lock: &Arc<Lock<P>>,
    [threads, rounds]: [u32; 2],
    timeout: Duration,
    signal: fn(&P),
) {
    let shared = Arc::new((Arc::clone(lock), AtomicU32::new(0)));
    together(threads, &shared, move |(lock, hasty), number| {
        for _ in 0..rounds {
            if number % 2 == 0 {
                lock.with(signal);
            } else if lock.with_in(timeout, signal) {
                hasty.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(lock.passed(), threads / 2 * rounds + shared.1.load(Ordering::Relaxed));
    assert!(lock.try_lock(), "a thread still holds it");
}

/// Runs `run` in `threads` threads, with what they share and their numbers, and waits for all of
/// them.
pub fn together<T: Send + Sync + 'static>(
    threads: u32,
    shared: &Arc<T>,
    run: impl Fn(&T, u32) + Send + Sync + Copy + 'static,
) {
    join(start(threads, shared, run));
}

/// As [`together`], without the wait.
pub fn start<T: Send + Sync + 'static>(
    threads: u32,
    shared: &Arc<T>,
    run: impl Fn(&T, u32) + Send + Sync + Copy + 'static,
) -> Vec<JoinHandle<()>> {
    (0..threads).map(|number| spawn(shared, move |shared| run(shared, number))).collect()
}

/// Runs this in a thread that shares `shared`, a handle of any kind.
pub fn spawn<H, T>(shared: &H, run: impl FnOnce(&H::Target) -> T + Send + 'static) -> JoinHandle<T>
where
    H: Clone + Deref + Send + 'static,
    T: Send + 'static,
{
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

/// Waits for all of these threads.
pub fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) {
    threads.into_iter().for_each(|thread| drop(thread.join().unwrap()));
}
