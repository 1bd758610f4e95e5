//! How long a waiter of the default lock spins before it sleeps, and how often it looks.
//!
//! Each look takes the lock's cache line away from the holder, who needs it back to release. So a waiter that looks
//! all the time slows down the thread that it waits for, and takes the lock, with all that it protects, to another
//! core at every chance: on two cores far from each other such locks do half of what one thread could do alone. A
//! waiter here measures what a look costs it, and looks [`LOOKS_APART`] times as seldom: never more than a few
//! percent of the holder's time are lost, and the holder does some work in one piece. When nothing moves, because
//! the critical section is long, a look costs next to nothing, and there are many. A waiter that
//! has not met contention for a while looks early the first time, because it is then likely that one hold is all
//! that stands in its way.
//!
//! Spinning ends after [`LOOKS`] looks, and not before a limit. A Rust mutex protects one value, and its waiters spin for [`LIMIT_OWN_NS`]: where half of the
//! threads take 3.75 times as long for a hold of 4 µs, that is worth a fifth of the throughput. A program's mutex may protect anything, and its
//! waiters spin for [`LIMIT_NS`]. A longer limit makes two CPUs take turns at a lock whose
//! data is large, for every hold of a microsecond, where one of them alone would do more (SQLite with one connection, LevelDB's
//! queue of writers: 0.80 to 0.85 of the C library's throughput with 10 µs, 0.91 to 1.06 with 2.5 µs).
//!
//! A thread whose last spins were all in vain, whatever the locks, does not spin at all: it looks once ([`HOPELESS`]). That is so
//! where no holder can run while it spins. Two threads on one CPU that signal each other are the purest case: the one
//! that is woken takes the CPU from the one that still holds the lock. One in [`PROBE`] of its waits spins nevertheless, and one
//! success ends it. It is the thread that counts, not the lock: a holder that is preempted makes all the others fail once or twice, on a lock for which
//! spinning pays all the time, but none of them often in a row.
//!
//! Times are in ticks of [`platform::clock::ticks`]; one look at it is also what a pause is made of, so that
//! a limit is the same on CPUs whose pause instructions differ by a factor of ten.

use super::bounded::{MARKED, OFFERED};
use super::slice::Thread;
use crate::cpu::short_of_cpus;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use platform::cpu::pause;

/// How many times the cost of a look lie between two.
const LOOKS_APART: u64 = 12;
/// The longest time between two looks.
const APART_NS_MAX: u64 = 2_500;
/// A waiter whose last wait was longer ago than this many times the time between two looks looks early.
const LATELY: u64 = 32;
/// How many looks a waiter takes before it sleeps …
const LOOKS: u64 = 5;
/// … if they take so long: at a program's mutex …
pub(super) const LIMIT_NS: u64 = 2_500;
/// … and at one of the library's own.
pub(super) const LIMIT_OWN_NS: u64 = 10_000;
/// How long a waiter spins that was woken and did not find the lock free.
const LIMIT_WOKEN_NS: u64 = 5_000;
/// How long a waiter spins that is overdue, before it sleeps until it is served.
const LIMIT_OVERDUE_NS: u64 = 20_000;
/// A thread that does not spin any more tries it again in one of this number of waits.
const PROBE: u64 = 16;
/// After so many spins in vain in a row a thread does not spin …
const HOPELESS: u32 = 256;
/// … and after so many in a process that is short of CPUs.
const HOPELESS_SHORT_OF_CPUS: u32 = 32;

/// Spins until the lock could be taken (true) by making `word` `to`, or that does not seem to pay.
pub(super) fn until_acquired(
    word: &AtomicU32,
    thread: &Thread,
    to: u32,
    limit_ns: u64,
    now_ticks: u64,
) -> bool {
    if !spins(thread.in_vain(), short_of_cpus(), now_ticks >> 8) {
        // This fails nearly always, so soon after the lock was found taken, and says nothing about spinning.
        return look(word, to);
    }
    let acquired = spin(word, thread, to, limit_ns);
    thread.spun(acquired);
    acquired
}

/// Whether a thread that has spun in vain so often in a row has nothing to hope for.
const fn is_hopeless(in_vain: u32, short_of_cpus: bool) -> bool {
    in_vain >= if short_of_cpus { HOPELESS_SHORT_OF_CPUS } else { HOPELESS }
}

/// Whether such a thread spins; `chance` is any number.
const fn spins(in_vain: u32, short_of_cpus: bool, chance: u64) -> bool {
    !is_hopeless(in_vain, short_of_cpus) || chance.is_multiple_of(PROBE)
}

/// Spins a little after a wake-up that found the lock taken by somebody else.
pub(super) fn after_sleep(word: &AtomicU32, thread: &Thread, to: u32) -> bool {
    if is_hopeless(thread.in_vain(), short_of_cpus()) {
        return look(word, to);
    }
    spin(word, thread, to, LIMIT_WOKEN_NS)
}

/// Spins until there is an offer (true), or that does not seem to pay.
pub(super) fn until_offered(side: &AtomicU32) -> bool {
    if platform::spin_bound(1) == 0 {
        return false;
    }
    let end_ticks = ticks().wrapping_add(ns_to_ticks(LIMIT_OVERDUE_NS));
    loop {
        // Relaxed: who finds an offer takes it by a step that acquires.
        if side.load(Ordering::Relaxed) & OFFERED != 0 {
            return true;
        }
        if ticks().wrapping_sub(end_ticks) as i64 >= 0 {
            return false;
        }
        pause();
    }
}

fn spin(word: &AtomicU32, thread: &Thread, to: u32, limit_ns: u64) -> bool {
    if platform::spin_bound(1) == 0 {
        return false;
    }
    let began_ticks = ticks();
    let (limit_ticks, apart_ticks_max) = (ns_to_ticks(limit_ns), ns_to_ticks(APART_NS_MAX));
    let mut apart_ticks = (thread.look_ticks() * LOOKS_APART).min(apart_ticks_max);
    let mut until_ticks = began_ticks.wrapping_add(apart_ticks);
    if began_ticks.wrapping_sub(thread.contended_ticks.get()) > apart_ticks * LATELY {
        until_ticks = began_ticks.wrapping_add(apart_ticks / LATELY);
    }
    loop {
        let mut before_ticks = ticks();
        while (before_ticks.wrapping_sub(until_ticks) as i64) < 0 {
            pause();
            before_ticks = ticks();
        }
        // Relaxed: who finds it free takes it by a step that acquires.
        let seen = word.load(Ordering::Relaxed);
        // The comparisons use the value, so it is here by the time that the clock is read again.
        let acquired =
            seen == 0 && word.compare_exchange(0, to, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let over = acquired || seen & MARKED != 0;
        let now_ticks = ticks();
        if over || now_ticks.wrapping_sub(began_ticks) > limit_ticks.max(LOOKS * apart_ticks) {
            thread.waited(now_ticks.wrapping_sub(began_ticks), now_ticks);
            return acquired;
        }
        thread.looked(now_ticks.wrapping_sub(before_ticks));
        apart_ticks = (thread.look_ticks() * LOOKS_APART).min(apart_ticks_max);
        until_ticks = now_ticks.wrapping_add(apart_ticks);
    }
}

/// Takes the lock if it is free.
pub(super) fn look(word: &AtomicU32, to: u32) -> bool {
    // As in `spin`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_spun_in_vain_for_long_does_not_spin() {
        let thread = Thread::new();
        for (short, most) in [(true, HOPELESS_SHORT_OF_CPUS), (false, HOPELESS)] {
            for failures in 0..2 * most {
                let spin: Vec<bool> = (0..64).map(|chance| spins(thread.in_vain(), short, chance)).collect();
                assert_eq!(spin.contains(&false), failures >= most, "after {failures}");
                assert!(spin.contains(&true), "some try again");
                thread.spun(false);
            }
            thread.spun(true);
            assert!(spins(thread.in_vain(), short, 1));
        }
    }

    #[test]
    fn one_look_takes_a_free_lock_only() {
        let word = AtomicU32::new(0);
        assert!(look(&word, 2));
        assert!(!look(&word, 1));
        assert_eq!(word.load(Ordering::Relaxed), 2);
    }
}
