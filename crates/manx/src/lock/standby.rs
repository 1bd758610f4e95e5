//! When a thread that stands by looks at the lock.
//!
//! A look takes the lock's cache line away from the holder. So a thread that stands by measures
//! what a look costs it. It waits at least `LOOK_INTERVAL_COSTS` times as long before the next
//! look, and then twice as long each time. It spins for `SPIN_NS` in all, then sleeps for longer
//! and longer, up to `SLEEP_NS_MAX`; it yields instead of spinning while the process is short of
//! CPUs. What is left of a window when it is too short for a sleep is spun, too: the kernel ends a
//! sleep 50 µs late.

use crate::cpu::shortage::{refresh_if_old_at, short_of_cpus};
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use platform::{cpu, thread};

/// The time between two looks is at least this number of times the cost of a look.
const LOOK_INTERVAL_COSTS: u64 = 40;
/// The shortest time between two looks …
const LOOK_INTERVAL_NS_MIN: u64 = 250;
/// … and the longest that is spun.
const LOOK_INTERVAL_NS_MAX: u64 = 2_500;
/// How long is spun before the first sleep, and at the end of a window: a sleep takes longer.
const SPIN_NS: u64 = 20_000;
/// The first sleep.
const SLEEP_NS_MIN: u64 = 50_000;
/// The longest sleep between two looks.
const SLEEP_NS_MAX: u64 = 1_000_000;

/// Looks now and then whether the lock can be had, by `take`, until the window is over or the
/// caller not willing (`None`). It does not sleep while the last look found the lock `is_free`.
pub(super) fn poll_until_acquired<H>(
    window_ns: u64,
    mut take: impl FnMut() -> Option<H>,
    willing: impl Fn() -> bool,
    is_free: impl Fn() -> bool,
) -> Option<H> {
    let (began_ticks, mut apart_ns) = (ticks(), LOOK_INTERVAL_NS_MIN);
    refresh_if_old_at(began_ticks);
    let mut sleep_ns = SLEEP_NS_MIN;
    loop {
        let waited_ns = ticks_to_ns(ticks().wrapping_sub(began_ticks));
        if waited_ns >= window_ns || !willing() {
            return None;
        }
        let left_ns = window_ns - waited_ns;
        if waited_ns < SPIN_NS || left_ns < SLEEP_NS_MIN + SPIN_NS || is_free() {
            spin(apart_ns.min(left_ns));
            apart_ns = (2 * apart_ns).min(LOOK_INTERVAL_NS_MAX);
        } else {
            thread::sleep_ns(sleep_ns.min(left_ns - SLEEP_NS_MIN));
            sleep_ns = (2 * sleep_ns).min(SLEEP_NS_MAX);
        }
        let before_ticks = ticks();
        if let Some(held) = take() {
            return Some(held);
        }
        let look_ns = ticks_to_ns(ticks().wrapping_sub(before_ticks));
        apart_ns = apart_ns.max((look_ns * LOOK_INTERVAL_COSTS).min(LOOK_INTERVAL_NS_MAX));
    }
}

/// Lets this much time pass without touching the lock.
fn spin(ns: u64) {
    if platform::spin_bound(1) == 0 {
        return thread::sleep_ns(ns);
    }
    let (began_ticks, length_ticks) = (ticks(), ns_to_ticks(ns));
    while ticks().wrapping_sub(began_ticks) < length_ticks {
        if short_of_cpus() {
            thread::yield_now();
        } else {
            cpu::pause();
        }
    }
}
