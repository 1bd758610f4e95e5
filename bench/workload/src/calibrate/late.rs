//! How late a short sleep ends.
//!
//! The kernel lets a sleep end late by the thread's timer slack, so that it can end several sleeps
//! with one interrupt. Without other timers near, it ends at the end of the slack: what a sleep is
//! late is the slack and the way from the timer's interrupt until the thread runs.

use super::samples::{Samples, elapsed_ns};
use platform::{clock, thread};

/// The length of a sleep.
const SLEEP_NS: u64 = 100_000;

/// How much longer than asked for each of `count` sleeps takes, with the thread's slack as it is.
pub fn sleeps(count: usize) -> Samples {
    let sleep = || {
        let began = clock::ticks();
        thread::sleep_ns(SLEEP_NS);
        elapsed_ns(began) - SLEEP_NS as f64
    };
    Samples::of((0..count).map(|_| sleep()))
}
