//! `sched_yield` in a loop: a thread that waits for another thread by yielding.
//!
//! While there is room a yield costs half a microsecond and the loop sees at once what it waits
//! for. While CPUs are short it is the worst way to wait. The scheduler picks the yielding thread
//! again if it is owed CPU time, and otherwise runs a neighbour for a whole slice; and a dozen
//! threads that yield to each other leave little for the thread that works. A sleep lets that
//! thread run.
//!
//! Or the best way: if others are ready that need but a moment, such as the other threads of a
//! gang, a yield lets them run at once, and a sleep of 50 µs in its place makes such a program a
//! hundred times slower (LLVM's OpenMP with more threads than CPUs). So a yield that lets others
//! run is left alone, and only two kinds are replaced:
//!
//! | yields | a sleep in their place | because |
//! | --- | --- | --- |
//! | in vain: a row of calls has lasted for `SLICE_NS`, and meanwhile the thread's CPU time went on like the clock | lasts for an eighth of the row, between `SLEEP_NS_MIN` and `SLEEP_NS_MAX` | no thread gets the CPU by them; the wait takes at most an eighth longer |
//! | dear: in the last `DEAR_FOR_NS` a yield of the thread took `DEAR_NS` | lasts for `SLEEP_NS_MIN`, if the [`trial`] says so | the yield gave a whole slice to a neighbour. The wait may be short or long; only the trial tells what is better |
//!
//! Both only while CPUs are short ([`crate::shortage`]), and never for a real-time thread, which
//! asked for its CPU.
//!
//! Calls make a row if they return to one place, if less than `BETWEEN_NS` lies between two of
//! them, and if the thread took no lock in between: a loop that does more makes progress. One call
//! in eight of a place is looked at, unless a yield was dear lately or work is measured.
//!
//! Invariants:
//! 1. The call returns 0, leaves `errno` alone, and is no cancellation point, like the C library's.
//! 2. A thread's row of calls ([`crate::yield_history`]) belongs to the thread. A signal handler
//!    that yields in the middle of a call may spoil the row, which then begins again.

use crate::settings::settings;
use crate::yield_history::{BETWEEN_NS_MAX, Step};
use crate::{shortage, thread, trial};
use platform::{clock, thread as os};
use preload_abi::live::Cure;
use preload_abi::options::Guard;

/// Yields, for a call that returns to `place`.
#[inline]
pub fn yield_from(place: usize) {
    let thread = thread::current();
    // A loop that yields by itself, with a hint beside it, waits as this file says and not as
    // `guard::visit` does: the next visit begins a row of its own.
    thread.site.set(0);
    if settings().guard == Guard::Off || !trial::measures() && thread.yielding.passes_unseen(place) {
        os::yield_now();
    } else {
        yield_seen(thread, place);
    }
}

/// Yields, or does what is better.
#[inline(never)]
fn yield_seen(thread: &thread::Thread, place: usize) {
    let past = &thread.yielding;
    let now_ticks = clock::ticks();
    let is_short = shortage::is_short(now_ticks);
    let returned_ticks = past.returned_ticks.get();
    if past.on_call(place, thread.lock.taken(), now_ticks) {
        trial::burned(returned_ticks, now_ticks, BETWEEN_NS_MAX);
    }
    let mut step = past.step(now_ticks, is_short, || trial::cures(Cure::Yield, now_ticks));
    // Asked before each sleep, which takes a hundred times as long: the class may change at any
    // time.
    if matches!(step, Step::Sleep { .. }) && os::scheduling_class().yields_only_to_equals() {
        step = Step::Yield;
    }
    if let Step::Sleep { ns } = step {
        trial::waits_by(|| os::sleep_ns(ns));
        past.on_wake(clock::ticks());
        return;
    }
    trial::waits_by(os::yield_now);
    let after_ticks = clock::ticks();
    let was_dear = past.on_return(now_ticks, after_ticks);
    if was_dear {
        trial::lost(Cure::Yield, after_ticks.wrapping_sub(now_ticks));
    }
    if was_dear || step == Step::Look {
        shortage::look(past.began_ticks.get(), now_ticks, after_ticks);
    }
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
