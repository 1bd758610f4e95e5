//! Waiting for something that must come. The limit only bounds a failure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than anything takes.
pub const LONG: Duration = Duration::from_secs(120);
/// The number of looks before the thread sleeps between two looks.
const YIELDS: u32 = 1000;

/// Returns when `ready` says so.
///
/// # Panics
/// If it does not come.
#[track_caller]
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    eventually(what, || ready().then_some(()));
}

/// Asks until there is an answer.
///
/// # Panics
/// If it does not come.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    for look in 0_u64.. {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < LONG, "it does not come: {what}");
        if look < YIELDS.into() {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_millis(1));
        }
    }
    unreachable!("the limit comes first")
}

/// Sets a flag when it is dropped, so that other threads end also if the test panics.
#[derive(Debug)]
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
