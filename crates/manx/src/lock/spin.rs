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
//! Where both come together, a process that is short of CPUs and a lock whose waiters spun in vain nearly every time
//! ([`SCORE_HOPELESS`]), they do not spin at all: they look once. That is so where the holder cannot run while the waiter does. Two
//! threads on one CPU that signal each other are the purest case: the one that is woken takes the CPU from the one that still
//! holds the lock. There one in [`PROBE_HOPELESS`] probes, for the short limit.
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
/// The same where spinning is hopeless, and the limit is the short one.
const PROBE_HOPELESS: u64 = 64;

/// Where the score stands in the lock's second word.
const SCORE_SHIFT: u32 = 16;
const SCORE_MAX: u32 = 0x1f;
/// From this score on the limit is short.
const SCORE_IN_VAIN: u32 = 24;
/// The same in a process that is short of CPUs.
const SCORE_IN_VAIN_SHORT_OF_CPUS: u32 = 8;
/// From this score on, where a lock stays if less than one waiter in five succeeds, nobody spins in a process that is short
/// of CPUs.
const SCORE_HOPELESS: u32 = 28;

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
    let limit_ns = limit_ns(score, short_of_cpus(), now_ticks >> 8);
    let acquired = spin(word, thread, to, limit_ns);
    learn(side, score, acquired);
    acquired
}

/// Whether spinning is known not to pay at all.
const fn is_hopeless(score: u32, short_of_cpus: bool) -> bool {
    short_of_cpus && score >= SCORE_HOPELESS
}

/// How long a waiter spins for a lock with this score; `chance` is any number.
const fn limit_ns(score: u32, short_of_cpus: bool, chance: u64) -> u64 {
    let in_vain = if short_of_cpus { SCORE_IN_VAIN_SHORT_OF_CPUS } else { SCORE_IN_VAIN };
    if is_hopeless(score, short_of_cpus) {
        if chance.is_multiple_of(PROBE_HOPELESS) { LIMIT_SHORT_NS } else { LIMIT_NONE_NS }
    } else if score >= in_vain && !chance.is_multiple_of(PROBE) {
        LIMIT_SHORT_NS
    } else {
        LIMIT_NS
    }
}

/// Spins a little after a wake-up that found the lock taken by somebody else.
pub(super) fn after_sleep(word: &AtomicU32, side: &AtomicU32, thread: &Thread, to: u32) -> bool {
    // Relaxed: a hint.
    let hopeless = is_hopeless(side.load(Ordering::Relaxed) >> SCORE_SHIFT & SCORE_MAX, short_of_cpus());
    spin(word, thread, to, if hopeless { LIMIT_NONE_NS } else { LIMIT_WOKEN_NS })
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
    if limit_ns == LIMIT_NONE_NS {
        return look(word, to);
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
    fn nobody_spins_where_it_is_hopeless_and_cpus_are_short() {
        for score in 0..=SCORE_MAX {
            for chance in 0..200 {
                let alone = limit_ns(score, false, chance);
                assert!([LIMIT_NS, LIMIT_SHORT_NS].contains(&alone), "with CPUs for all everybody spins");
                let spins = limit_ns(score, true, chance) != LIMIT_NONE_NS;
                assert_eq!(spins, score < SCORE_HOPELESS || chance.is_multiple_of(PROBE_HOPELESS));
            }
        }
    }

    #[test]
    fn a_lock_is_hopeless_after_many_failures_and_not_with_a_success_now_and_then() {
        let side = AtomicU32::new(OFFERED);
        assert_eq!(score_after(&side, [false; 10]), SCORE_MAX);
        assert!(score_after(&side, [true]) < SCORE_HOPELESS);
        assert!(score_after(&side, [false; 2]) >= SCORE_HOPELESS);
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
