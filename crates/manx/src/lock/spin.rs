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
//! How long spinning may go on for has one limit, [`LIMIT_NS`], and a shorter one, [`LIMIT_SHORT_NS`], for a lock whose
//! waiters spun in vain again and again, or a process that is short of CPUs and whose waiters spun in vain
//! lately. The lock remembers that in five bits of its second word, the *score*: it goes up by a quarter of what is
//! missing when a waiter spun in vain, and down by an eighth when not. One in [`PROBE`] waiters spins the long limit
//! nevertheless, so that the lock learns when that changes.
//!
//! A thread whose last spins were all in vain, whatever the locks, does not spin at all: it looks once ([`HOPELESS`]). That is so
//! where no holder can run while it spins. Two threads on one CPU that signal each other are the purest case: the one
//! that is woken takes the CPU from the one that still holds the lock. One in [`PROBE`] of its waits probes for the short limit, and one
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
const LOOKS_APART: u64 = 40;
/// The longest time between two looks.
const APART_NS_MAX: u64 = 2_500;
/// A waiter whose last wait was longer ago than this many times the time between two looks looks early.
const LATELY: u64 = 32;
/// How long a waiter spins before it sleeps.
const LIMIT_NS: u64 = 10_000;
/// The same where that was in vain again and again.
const LIMIT_SHORT_NS: u64 = 5_000;
/// How long a waiter spins that was woken and did not find the lock free.
const LIMIT_WOKEN_NS: u64 = 5_000;
/// How long a waiter spins that is overdue, before it sleeps until it is served.
const LIMIT_OVERDUE_NS: u64 = 20_000;
/// No spinning: one look.
const LIMIT_NONE_NS: u64 = 0;
/// One in so many waiters spins for the long limit whatever the lock has learnt.
const PROBE: u64 = 16;
/// After so many spins in vain in a row a thread does not spin …
const HOPELESS: u32 = 256;
/// … and after so many in a process that is short of CPUs.
const HOPELESS_SHORT_OF_CPUS: u32 = 32;

/// Where the score stands in the lock's second word.
const SCORE_SHIFT: u32 = 16;
const SCORE_MAX: u32 = 0x1f;
/// From this score on the limit is short.
const SCORE_IN_VAIN: u32 = 24;
/// The same in a process that is short of CPUs.
const SCORE_IN_VAIN_SHORT_OF_CPUS: u32 = 8;

/// Spins until the lock could be taken (true) by making `word` `to`, or that does not seem to pay.
pub(super) fn until_acquired(
    word: &AtomicU32,
    side: &AtomicU32,
    thread: &Thread,
    to: u32,
    now_ticks: u64,
) -> bool {
    // Relaxed: a hint.
    let score = side.load(Ordering::Relaxed) >> SCORE_SHIFT & SCORE_MAX;
    let limit_ns = limit_ns(score, thread.in_vain(), short_of_cpus(), now_ticks >> 8);
    if limit_ns == LIMIT_NONE_NS {
        // This fails nearly always, so soon after the lock was found taken, and says nothing about spinning.
        return look(word, to);
    }
    let acquired = spin(word, thread, to, limit_ns);
    thread.spun(acquired);
    learn(side, score, acquired);
    acquired
}

/// Whether a thread that has spun in vain so often in a row has nothing to hope for.
const fn is_hopeless(in_vain: u32, short_of_cpus: bool) -> bool {
    in_vain >= if short_of_cpus { HOPELESS_SHORT_OF_CPUS } else { HOPELESS }
}

/// How long such a thread spins for a lock with this score; `chance` is any number.
const fn limit_ns(score: u32, in_vain: u32, short_of_cpus: bool, chance: u64) -> u64 {
    let probes = chance.is_multiple_of(PROBE);
    let score_in_vain = if short_of_cpus { SCORE_IN_VAIN_SHORT_OF_CPUS } else { SCORE_IN_VAIN };
    match (is_hopeless(in_vain, short_of_cpus), score >= score_in_vain) {
        (true, _) if probes => LIMIT_SHORT_NS,
        (true, _) => LIMIT_NONE_NS,
        (false, true) if !probes => LIMIT_SHORT_NS,
        (false, _) => LIMIT_NS,
    }
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
        if over || now_ticks.wrapping_sub(began_ticks) > limit_ticks {
            thread.waited(now_ticks.wrapping_sub(began_ticks), now_ticks);
            return acquired;
        }
        thread.looked(now_ticks.wrapping_sub(before_ticks));
        apart_ticks = (thread.look_ticks() * LOOKS_APART).min(apart_ticks_max);
        until_ticks = now_ticks.wrapping_add(apart_ticks);
    }
}

/// Takes the lock if it is free.
fn look(word: &AtomicU32, to: u32) -> bool {
    // As in `spin`.
    word.load(Ordering::Relaxed) == 0
        && word.compare_exchange(0, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Moves the score. Costs nothing while all goes well: the holder has the line anyway, and who failed is
/// about to sleep.
fn learn(side: &AtomicU32, score: u32, acquired: bool) {
    if acquired && score == 0 || !acquired && score == SCORE_MAX {
        return;
    }
    let learnt = if acquired { score - score.div_ceil(8) } else { score + (SCORE_MAX - score).div_ceil(4) };
    let seen = side.load(Ordering::Relaxed);
    let wanted = seen & !(SCORE_MAX << SCORE_SHIFT) | learnt << SCORE_SHIFT;
    // Relaxed, and lost if somebody else was faster: a hint. The bits below are kept as they were.
    let _ = side.compare_exchange(seen, wanted, Ordering::Relaxed, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score of a lock after these outcomes.
    fn score_after(side: &AtomicU32, outcomes: impl IntoIterator<Item = bool>) -> u32 {
        for acquired in outcomes {
            learn(side, side.load(Ordering::Relaxed) >> SCORE_SHIFT & SCORE_MAX, acquired);
        }
        side.load(Ordering::Relaxed) >> SCORE_SHIFT & SCORE_MAX
    }

    #[test]
    fn nobody_spins_who_did_so_in_vain_for_long() {
        let thread = Thread::new();
        for (short, most) in [(true, HOPELESS_SHORT_OF_CPUS), (false, HOPELESS)] {
            for failures in 0..2 * most {
                let limits: Vec<u64> =
                    (0..64).map(|chance| limit_ns(SCORE_MAX, thread.in_vain(), short, chance)).collect();
                assert_eq!(limits.contains(&LIMIT_NONE_NS), failures >= most, "after {failures}");
                assert!(limits.iter().any(|&limit_ns| limit_ns != LIMIT_NONE_NS), "some try again");
                thread.spun(false);
            }
            thread.spun(true);
            assert_ne!(limit_ns(SCORE_MAX, thread.in_vain(), short, 1), LIMIT_NONE_NS);
        }
    }

    #[test]
    fn the_score_follows_what_happens_and_touches_nothing_else() {
        let side = AtomicU32::new(OFFERED);
        assert_eq!(score_after(&side, [false; 10]), SCORE_MAX);
        assert!(score_after(&side, [true; 2]) < SCORE_IN_VAIN + 1);
        assert_eq!(score_after(&side, [true; 40]), 0);
        assert_eq!(side.load(Ordering::Relaxed), OFFERED, "nothing else is touched");
    }

    #[test]
    fn one_look_takes_a_free_lock_only() {
        let word = AtomicU32::new(0);
        assert!(look(&word, 2));
        assert!(!look(&word, 1));
        assert_eq!(word.load(Ordering::Relaxed), 2);
    }
}
