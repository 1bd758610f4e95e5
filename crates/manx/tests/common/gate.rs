//! What the tests of both gates share: how many run at a time.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// As many as the machine is taken to have CPUs.
pub const WORKERS: usize = 4;
/// How many run at the same time, at most.
#[derive(Default)]
pub struct Together {
    now: AtomicUsize,
    pub most: AtomicUsize,
}

impl Together {
    /// Runs for a moment.
    pub fn work(&self) {
        self.most.fetch_max(1 + self.now.fetch_add(1, SeqCst), SeqCst);
        for _ in 0..20 {
            std::thread::yield_now();
        }
        self.now.fetch_sub(1, SeqCst);
    }
}
