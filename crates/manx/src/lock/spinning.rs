//! How long a waiter spins, how often it looks at the lock, and when spinning does not pay.
//!
//! Each look takes the lock's cache line away from the holder, which needs the line back to
//! release. So a waiter that looks all the time slows down the thread that it waits for, and takes
//! the lock, with all that it protects, to another core at every chance: on two cores far from each
//! other such locks do half of what one thread could do alone. A waiter here measures what a look
//! costs it, and looks `LOOK_INTERVAL_COSTS` times as seldom, so that the holder loses a few
//! percent of its time at most. When nothing moves, because the critical section is long, a look
//! costs next to nothing, and there are many. A waiter that has not met contention for a while
//! looks early the first time, because it is then likely that one hold is all that stands in its
//! way.
//!
//! Spinning ends after `LOOKS` looks, and not before a limit. A Rust mutex protects one value,
//! and its waiters spin for `SPIN_OWN_NS`. A program's mutex may protect anything, and its waiters
//! spin for `SPIN_NS`. A longer limit makes two CPUs take turns at a lock whose data is large, for
//! every hold of a microsecond, where one of them alone would do more (figures: README.md).
//!
//! A thread whose spins do not pay, whatever the locks, does not spin at all: it looks once. For
//! most of them no holder can run while it spins. The thread keeps an account (`slice.rs`): it owes
//! the time for which it spins, up to the limit, and each spin that acquires saves a sleep and a
//! wake-up, worth `SAVED` limits. A thread that owes `HOPELESS_NS` spins in one of `PROBE` waits
//! only, until some spins have paid. The thread is counted, and not the lock: a preempted holder
//! makes all other threads fail once or twice, but none of them often.
//!
//! Times are in ticks of [`platform::clock::ticks`]; one look at it is also what a pause is made
//! of, so that a limit is the same on CPUs whose pause instructions differ by a factor of ten.

use super::slice::Thread;
use super::words::MARKED;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use platform::constant::Constant;
use platform::cpu::pause;

/// The time between two looks is this number of times the cost of a look.
pub(super) const LOOK_INTERVAL_COSTS: Constant = Constant::new("LOOK_INTERVAL_COSTS", 12);
/// The longest time between two looks.
const LOOK_INTERVAL_NS_MAX: u64 = 2_500;
/// A waiter looks early if its last wait was longer ago than this number of times the time between
/// two looks.
const LATELY: u64 = 32;
/// The number of looks that a waiter takes before it sleeps …
const LOOKS: u64 = 5;
/// … if they have taken this time: at a program's mutex …
pub(super) const SPIN_NS: u64 = 2_500;
/// … and at one of the library's own.
pub(super) const SPIN_OWN_NS: Constant = Constant::new("SPIN_OWN_NS", 10_000);
/// How long a waiter spins after it was woken and did not find the lock free.
pub(super) const SPIN_WOKEN_NS: Constant = Constant::new("SPIN_WOKEN_NS", 5_000);
/// A thread that has stopped spinning spins in one wait out of this number.
const PROBE: u64 = 64;
/// A thread that owes this much time stops spinning.
const HOPELESS_NS: u64 = 160_000;
/// A spin that acquires is worth this number of times its limit.
const SAVED: u64 = 2;

/// Spins until it has taken the lock by setting `word` to `to` (true), or until spinning does not
/// seem to pay (false).
pub(super) fn spin_if_it_pays(
    word: &AtomicU32,
    thread: &Thread,
    to: u32,
    spin_ns: u64,
    now_ticks: u64,
) -> bool {
    if !spins(thread, now_ticks >> 8) {
        // This fails nearly always, so soon after the lock was found taken, and says nothing about
        // spinning.
        return look(word, to);
    }
    spin_for(word, thread, to, spin_ns)
}

/// Returns whether the thread spins; `chance` is any number.
pub(super) fn spins(thread: &Thread, chance: u64) -> bool {
    thread.owed_ticks() < ns_to_ticks(HOPELESS_NS) || chance.is_multiple_of(PROBE)
}

/// The thread has spun for this time.
pub(super) fn spun(thread: &Thread, acquired: bool, spun_ticks: u64, spin_ns: u64) {
    let most_ticks = ns_to_ticks(spin_ns);
    let saved_ticks = if acquired { SAVED * most_ticks } else { 0 };
    let owed_ticks = (thread.owed_ticks() + spun_ticks.min(most_ticks)).saturating_sub(saved_ticks);
    // Two spins that pay let it spin again.
    thread.owes(owed_ticks.min(ns_to_ticks(HOPELESS_NS) + most_ticks));
}

/// Spins a little after a wake-up that found the lock taken by another thread.
pub(super) fn spin_after_sleep(word: &AtomicU32, thread: &Thread, to: u32) -> bool {
    // No such waiter probes: the next one that comes may.
    if spins(thread, 1) { spin_for(word, thread, to, SPIN_WOKEN_NS.get()) } else { look(word, to) }
}

fn spin_for(word: &AtomicU32, thread: &Thread, to: u32, spin_ns: u64) -> bool {
    if platform::spin_bound(1) == 0 {
        return false;
    }
    let began_ticks = ticks();
    let (acquired, now_ticks) = spin_while(|| true, word, thread, to, spin_ns);
    let spun_ticks = now_ticks.wrapping_sub(began_ticks);
    thread.waited(spun_ticks, now_ticks);
    spun(thread, acquired == Some(true), spun_ticks, spin_ns);
    acquired == Some(true)
}

/// Looks at the lock from time to time, while this thread `is_alone`. Returns whether it acquired
/// the lock, `None` if it is not alone, and when it looked at the clock last.
pub(super) fn spin_while(
    is_alone: impl Fn() -> bool,
    word: &AtomicU32,
    thread: &Thread,
    to: u32,
    spin_ns: u64,
) -> (Option<bool>, u64) {
    let began_ticks = ticks();
    if platform::spin_bound(1) == 0 {
        return (None, began_ticks);
    }
    let (spin_ticks, interval_ticks_max) = (ns_to_ticks(spin_ns), ns_to_ticks(LOOK_INTERVAL_NS_MAX));
    let mut apart_ticks = (thread.look_ticks() * LOOK_INTERVAL_COSTS.get()).min(interval_ticks_max);
    let mut until_ticks = began_ticks.wrapping_add(apart_ticks);
    if began_ticks.wrapping_sub(thread.contended_ticks.get()) > apart_ticks * LATELY {
        until_ticks = began_ticks.wrapping_add(apart_ticks / LATELY);
    }
    loop {
        let mut before_ticks = ticks();
        while (before_ticks.wrapping_sub(until_ticks) as i64) < 0 {
            if !is_alone() {
                return (None, before_ticks);
            }
            pause();
            before_ticks = ticks();
        }
        // Relaxed: a thread that finds it free takes it by a step that acquires.
        let seen = word.load(Ordering::Relaxed);
        // The comparisons use the value, so it is here by the time that the clock is read again.
        let acquired =
            seen == 0 && word.compare_exchange(0, to, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let over = acquired || seen & MARKED != 0;
        let now_ticks = ticks();
        if over || now_ticks.wrapping_sub(began_ticks) > spin_ticks.max(LOOKS * apart_ticks) {
            return (Some(acquired), now_ticks);
        }
        thread.looked(now_ticks.wrapping_sub(before_ticks));
        apart_ticks = (thread.look_ticks() * LOOK_INTERVAL_COSTS.get()).min(interval_ticks_max);
        until_ticks = now_ticks.wrapping_add(apart_ticks);
    }
}

/// Takes the lock if it is free.
pub(super) fn look(word: &AtomicU32, to: u32) -> bool {
    word.load(Ordering::Relaxed) == 0
        && word.compare_exchange(0, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Lets this much time pass.
pub(super) fn pause_for(ns: u64) {
    let end_ticks = ticks().wrapping_add(ns_to_ticks(ns));
    while platform::spin_bound(1) != 0 && (ticks().wrapping_sub(end_ticks) as i64) < 0 {
        pause();
    }
}
