//! What the tests of both gates share: how many run at a time, and waiting for what must come.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// As many as the machine is taken to have CPUs.
pub const WORKERS: usize = 4;
/// Far longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that must come.
pub fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !ready() {
        assert!(Instant::now() < until, "{what}: it does not come");
        std::thread::yield_now();
    }
}

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
