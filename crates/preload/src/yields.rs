//! `sched_yield` in a loop: a thread that waits for another thread by yielding.
//!
//! While there is room a yield costs half a microsecond and the loop sees at once what it waits
//! for. While CPUs are short it is the worst way to wait. The scheduler picks the yielding thread
//! again if it is owed CPU time, and otherwise runs a neighbour for a whole slice; and a dozen
//! threads that yield to each other leave little for the thread that works. A sleep lets that
//! thread run.
//!
//! The program's calls of `sched_yield` come here and go on to the kernel as they are, unless all
//! of these are true:
//!
//! | condition | because |
//! | --- | --- |
//! | the last `FEW` calls and this one return to one place | a loop waits, a single yield is a courtesy |
//! | less than `BETWEEN_NS` between two of them | a loop that does work between its yields makes progress |
//! | no mutex and no spin lock was taken in between | the same |
//! | CPUs are short ([`crate::shortage`]) | where there is room nothing sleeps |
//! | the thread is no real-time thread | such a thread asked for its CPU |
//!
//! Then the thread sleeps instead, for an eighth of the time that its row of calls has lasted,
//! between `SLEEP_NS_MIN` and `SLEEP_NS_MAX`. So a wait takes at most an eighth longer than it
//! would have, or 50 µs and the timer's slack.
//!
//! Invariants:
//! 1. The call returns 0, leaves `errno` alone, and is no cancellation point, like the C library's.
//! 2. A thread's row of calls ([`crate::yield_history`]) belongs to the thread. A signal handler
//!    that yields in the middle of a call may spoil the row, which then begins again.

use crate::settings::settings;
use crate::yield_history::Step;
use crate::{shortage, thread, trial};
use platform::{clock, thread as os};
use preload_abi::options::Guard;

const LONG_NS: u64 = 2_000_000;
const LOST_NS: u64 = 1_000_000;
const YIELD_NS: u64 = 2_000;
const BETWEEN_NS: u64 = 3_000;

/// Yields, for a call that returns to `place`.
pub fn yield_from(place: usize) {
    if settings().guard == Guard::Off {
        os::yield_now();
        return;
    }
    let thread = thread::current();
    let past = &thread.yielding;
    let now_ticks = clock::ticks();
    let is_short = shortage::is_short(now_ticks);
    if is_short {
        trial::drive(now_ticks);
    }
    let between_ticks = now_ticks.wrapping_sub(past.returned_ticks.get());
    let mut step = past.step(place, thread.lock.taken(), now_ticks, is_short);
    if past.goes_on() {
        trial::burned(between_ticks, BETWEEN_NS);
    }
    if is_short && now_ticks.wrapping_sub(past.began_ticks.get()) > clock::ns_to_ticks(LONG_NS) {
        trial::ask(trial::YIELD);
    }
    if is_short && now_ticks < past.lost_until_ticks.get() && trial::is_on(trial::YIELD) && !matches!(step, Step::Sleep{..}) {
        step = Step::Sleep { ns: 50_000 };
    }
    // Asked before each sleep, which takes a hundred times as long: the class may change at any
    // time.
    if matches!(step, Step::Sleep { .. }) && os::scheduling_class().yields_only_to_equals() {
        step = Step::Yield;
    }
    if let Step::Sleep { ns } = step {
        os::sleep_ns(ns);
    } else {
        os::yield_now();
    }
    let after_ticks = clock::ticks();
    let took_ticks = after_ticks.wrapping_sub(now_ticks);
    if !matches!(step, Step::Sleep { .. }) {
        trial::burned(took_ticks, YIELD_NS);
        if took_ticks >= clock::ns_to_ticks(LOST_NS) {
            past.lost_until_ticks.set(after_ticks + clock::ns_to_ticks(100_000_000));
            step = Step::Look;
        }
    }
    if step == Step::Look {
        shortage::look(past.began_ticks.get(), now_ticks, after_ticks);
    }
    past.returned_ticks.set(after_ticks);
}

/// The names by which programs reach [`yield_from`].
#[cfg(not(test))]
mod exports {
    use core::ffi::c_int;

    extern "C" fn inner(place: usize) -> c_int {
        super::yield_from(place);
        0
    }

    crate::caller::with_caller! {
        /// Lets others run, or waits for them.
        sched_yield(0) = inner;
        /// The same.
        __sched_yield(0) = inner;
        /// The same, by its older name.
        pthread_yield(0) = inner;
        /// The same, by C11's name: that one returns nothing.
        thrd_yield(0) = inner;
    }
}
