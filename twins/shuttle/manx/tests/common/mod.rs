//! What the tests of the waiting room share: a lock made of a flag and a policy, and threads by the
//! number.

use manx_shuttle::wait::Policy;
use platform::thread;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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
    pub fn with_in(&self, timeout_ns: u64, signal: impl Fn(&P)) -> bool {
        let taken = self.freed.until_for(timeout_ns, || self.try_lock());
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

/// Runs `run` in `threads` threads, with what they share and their numbers, and waits for all of
/// them.
pub fn together<T: Send + Sync + 'static>(
    threads: u32,
    shared: &Arc<T>,
    run: impl Fn(&T, u32) + Send + Sync + Copy + 'static,
) {
    let started: Vec<_> = (0..threads)
        .map(|number| {
            let shared = Arc::clone(shared);
            thread::spawn(move || run(&shared, number))
        })
        .collect();
    for thread in started {
        thread.join().unwrap();
    }
}
