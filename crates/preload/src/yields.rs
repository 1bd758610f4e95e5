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
//! 2. A [`YieldHistory`] belongs to its thread. A signal handler that yields in the middle of a
//!    call may spoil the row, which then begins again.

use crate::{settings, shortage, thread};
use core::cell::Cell;
use platform::{clock, thread as os};
use preload_abi::options::Guard;

/// Calls in a row that go to the kernel in any case.
const FEW: u32 = 32;
/// The thread looks whether CPUs are short at each call whose number is a multiple of this.
const LOOK_EVERY: u32 = 16;
/// A loop that does more than this between two yields is not waiting: a look at a few words, or for
/// work to steal, takes less.
const BETWEEN_NS: u64 = 3_000;
/// The shortest sleep.
const SLEEP_NS_MIN: u64 = 50_000;
/// The longest.
const SLEEP_NS_MAX: u64 = 1_000_000;
/// A sleep lasts for this part of the wait so far.
const PART: u64 = 8;

/// A thread's row of yields; all-zero to begin with.
#[derive(Debug, Default)]
#[repr(C)]
pub struct YieldHistory {
    /// Where the calls return to.
    place: Cell<usize>,
    /// When the first one was made, in ticks.
    began_ticks: Cell<u64>,
    /// When the last one returned, in ticks.
    returned_ticks: Cell<u64>,
    /// How many there have been.
    count: Cell<u32>,
    /// How often the thread had taken a lock when the last one was made.
    taken: Cell<u32>,
}

/// What a call of the row is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Go to the kernel.
    Yield,
    /// The same, and look whether CPUs are short.
    Look,
    /// Sleep for this number of nanoseconds.
    Sleep { ns: u64 },
}

impl YieldHistory {
    /// The thread yields again, or for the first time.
    fn step(&self, place: usize, taken: u32, now_ticks: u64, is_short: bool) -> Step {
        let between_ticks = now_ticks.wrapping_sub(self.returned_ticks.get());
        let goes_on = self.place.get() == place
            && self.taken.get() == taken
            && clock::ticks_to_ns(between_ticks) < BETWEEN_NS;
        if !goes_on {
            self.place.set(place);
            self.taken.set(taken);
            self.began_ticks.set(now_ticks);
            self.count.set(0);
        }
        let count = self.count.get().saturating_add(1);
        self.count.set(count);
        if count <= FEW {
            Step::Yield
        } else if is_short {
            let waited_ns = clock::ticks_to_ns(now_ticks.wrapping_sub(self.began_ticks.get()));
            Step::Sleep { ns: (waited_ns / PART).clamp(SLEEP_NS_MIN, SLEEP_NS_MAX) }
        } else if count.is_multiple_of(LOOK_EVERY) {
            Step::Look
        } else {
            Step::Yield
        }
    }
}

/// Yields, for a call that returns to `place`.
pub fn yield_from(place: usize) {
    if settings::guard() == Guard::Off {
        os::yield_now();
        return;
    }
    let thread = thread::current();
    let past = &thread.yielding;
    let now_ticks = clock::ticks();
    let mut step = past.step(place, thread.lock.taken(), now_ticks, shortage::is_short(now_ticks));
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

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: usize = 0x1000;

    /// Makes this number of calls, one tick apart.
    fn row(
        past: &YieldHistory,
        place: usize,
        taken: u32,
        from_ticks: u64,
        calls: u32,
        is_short: bool,
    ) -> Vec<Step> {
        let step = |call| {
            let now_ticks = from_ticks + u64::from(call);
            let step = past.step(place, taken, now_ticks, is_short);
            past.returned_ticks.set(now_ticks);
            step
        };
        (0..calls).map(step).collect()
    }

    fn sleeps(steps: &[Step]) -> usize {
        steps.iter().filter(|step| matches!(step, Step::Sleep { .. })).count()
    }

    #[test]
    fn a_row_sleeps_while_cpus_are_short_and_only_then() {
        let past = YieldHistory::default();
        let steps = row(&past, HERE, 0, 1 << 40, FEW + 10, true);
        assert_eq!(sleeps(&steps), 10);
        assert_eq!(steps.last(), Some(&Step::Sleep { ns: SLEEP_NS_MIN }));
        let steps = row(&past, HERE, 0, (1 << 40) + 100, 1000, false);
        assert_eq!(sleeps(&steps), 0);
        assert!(steps.contains(&Step::Look), "it finds out");
    }

    #[test]
    fn sleeps_grow_with_the_wait_up_to_a_bound() {
        let past = YieldHistory::default();
        row(&past, HERE, 0, 1 << 40, FEW, true);
        let after = |waited_ns: u64| {
            let now_ticks = (1 << 40) + clock::ns_to_ticks(waited_ns);
            past.returned_ticks.set(now_ticks);
            past.step(HERE, 0, now_ticks, true)
        };
        let Step::Sleep { ns } = after(4_000_000) else { panic!("sleeps") };
        assert!((499_000..501_000).contains(&ns), "{ns}");
        assert_eq!(after(1_000_000_000), Step::Sleep { ns: SLEEP_NS_MAX });
    }

    #[test]
    fn a_row_begins_again() {
        let begins = |place, taken, pause_ticks: u64| {
            let past = YieldHistory::default();
            row(&past, HERE, 0, 1 << 40, FEW + 5, true);
            let next_ticks = past.returned_ticks.get() + pause_ticks;
            sleeps(&row(&past, place, taken, next_ticks, FEW, true)) == 0
        };
        assert!(!begins(HERE, 0, 1), "nothing in between");
        assert!(begins(HERE + 8, 0, 1), "from another place");
        assert!(begins(HERE, 1, 1), "a lock was taken");
        assert!(begins(HERE, 0, clock::ns_to_ticks(2 * BETWEEN_NS)), "something else took its time");
    }
}
