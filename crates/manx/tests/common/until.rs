//! Waiting for something that must come.

use std::time::{Duration, Instant};

/// Far longer than anything takes.
pub const LONG: Duration = Duration::from_secs(60);

/// Returns when it has come.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < LONG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
