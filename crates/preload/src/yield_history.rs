//! The yields that a thread makes in a row, and what the next one is to do: see [`crate::yields`].

use crate::settings::settings;
use core::cell::Cell;
use platform::clock::{self, ns_to_ticks, ticks_to_ns};
use preload_abi::options::Short;

/// This number of calls after one that was looked at are not: to look takes as long as a tenth of a
/// yield that switches to another thread.
const UNSEEN: u32 = 7;
/// Calls in a row, of those that were looked at, that are no wait yet.
const FEW: u32 = 4;
/// The thread looks whether CPUs are short at each such call whose number is a multiple of this.
const LOOK_EVERY: u32 = 2;
/// A loop that does more than this between two yields is not waiting: a look at a few words, or for
/// work to steal, takes less.
const BETWEEN_NS: u64 = 3_000;
/// A row goes on after a sleep if the next yield comes within this number of `BETWEEN_NS`: caches
/// were lost, and some loops spin for long between two yields.
const SLEPT: u32 = 8;
/// The longest time between two calls of a row.
pub const BETWEEN_NS_MAX: u64 = BETWEEN_NS * (SLEPT as u64 + 1);
/// A row in which no yield let another thread run for this long is in vain: a thread that waits for
/// this CPU has it after a slice.
const SLICE_NS: u64 = 4_000_000;
/// A yield that took this long gave a slice to a thread that does not wait.
const DEAR_NS: u64 = 1_000_000;
/// Yields may be dear for this long after such a yield.
const DEAR_FOR_NS: u64 = 100_000_000;
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
    pub began_ticks: Cell<u64>,
    /// When the last one returned, in ticks.
    pub returned_ticks: Cell<u64>,
    /// How many have been looked at.
    count: Cell<u32>,
    /// How many of the next calls need not be looked at.
    unseen: Cell<u32>,
    /// How many calls were not looked at since the last one that was.
    passed: Cell<u32>,
    /// How often the thread had taken a lock when the last one was made.
    taken: Cell<u32>,
    /// Since when it is asked whether the row is in vain, in ticks; 0: it is not asked.
    asked_ticks: Cell<u64>,
    /// The thread's CPU time then, in nanoseconds; `IN_VAIN`: it is.
    asked_cpu_ns: Cell<u64>,
    /// Until when yields may be dear, in ticks.
    dear_until_ticks: Cell<u64>,
}

/// [`YieldHistory::asked_cpu_ns`] of a row that is in vain.
const IN_VAIN: u64 = u64::MAX;

/// What a call of the row is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Go to the kernel.
    Yield,
    /// Go to the kernel, and look whether CPUs are short.
    Look,
    /// Sleep for some nanoseconds.
    Sleep {
        /// How many.
        ns: u64,
    },
}

impl YieldHistory {
    /// Returns whether this call need not be looked at. One of another place is: of two places
    /// in turn, one call in eight would always show the same.
    #[inline]
    pub fn passes_unseen(&self, place: usize) -> bool {
        let unseen = self.unseen.get();
        let passes = unseen > 0 && self.place.get() == place;
        if passes {
            self.unseen.set(unseen - 1);
            self.passed.set(self.passed.get() + 1);
        }
        passes
    }

    /// The thread yields again, or for the first time. Returns whether it goes on with a row.
    pub fn on_call(&self, place: usize, taken: u32, now_ticks: u64) -> bool {
        let between_ticks = now_ticks.wrapping_sub(self.returned_ticks.get());
        let between_ns = BETWEEN_NS * u64::from(self.passed.replace(0) + 1);
        if self.place.get() == place && self.taken.get() == taken && between_ticks < ns_to_ticks(between_ns) {
            self.count.set(self.count.get().saturating_add(1));
            return true;
        }
        self.place.set(place);
        self.taken.set(taken);
        self.began_ticks.set(now_ticks);
        self.asked_ticks.set(0);
        self.count.set(1);
        false
    }

    /// What the call is to do. `cures`: whether a sleep is better than a dear yield.
    pub fn step(&self, now_ticks: u64, is_short: bool, cures: impl FnOnce() -> bool) -> Step {
        let count = self.count.get();
        if is_short {
            if now_ticks < self.dear_until_ticks.get() && cures() {
                return Step::Sleep { ns: SLEEP_NS_MIN };
            }
            if count > FEW && self.is_in_vain(now_ticks) {
                let waited_ns = ticks_to_ns(now_ticks.wrapping_sub(self.began_ticks.get()));
                return Step::Sleep { ns: (waited_ns / PART).clamp(SLEEP_NS_MIN, SLEEP_NS_MAX) };
            }
        } else if count > FEW && count.is_multiple_of(LOOK_EVERY) {
            return Step::Look;
        }
        Step::Yield
    }

    /// A yield of the row returned. Whether it was dear.
    pub fn on_return(&self, now_ticks: u64, after_ticks: u64) -> bool {
        self.returned_ticks.set(after_ticks);
        let took_ticks = after_ticks.wrapping_sub(now_ticks);
        let dear = took_ticks >= ns_to_ticks(DEAR_NS);
        if dear {
            self.dear_until_ticks.set(after_ticks.saturating_add(ns_to_ticks(DEAR_FOR_NS)));
        }
        // After a dear yield each one is looked at for a while.
        self.unseen.set(if after_ticks < self.dear_until_ticks.get() { 0 } else { UNSEEN });
        dear
    }

    /// The thread slept in place of a yield, until now.
    pub fn on_wake(&self, now_ticks: u64) {
        self.returned_ticks.set(now_ticks);
        self.passed.set(SLEPT);
    }

    /// Whether the yields of this row have let no other thread run for a slice.
    fn is_in_vain(&self, now_ticks: u64) -> bool {
        if settings().short == Short::Always {
            return true;
        }
        let (asked_ticks, asked_cpu_ns) = (self.asked_ticks.get(), self.asked_cpu_ns.get());
        if asked_ticks != 0 {
            let asked_ns = ticks_to_ns(now_ticks.wrapping_sub(asked_ticks));
            if asked_cpu_ns == IN_VAIN || asked_ns < SLICE_NS {
                return asked_cpu_ns == IN_VAIN;
            }
            if clock::thread_cpu_ns().saturating_sub(asked_cpu_ns) >= asked_ns / 8 * 7 {
                self.asked_cpu_ns.set(IN_VAIN);
                return true;
            }
        }
        self.asked_ticks.set(now_ticks);
        self.asked_cpu_ns.set(clock::thread_cpu_ns());
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: usize = 0x1000;

    /// Makes this number of calls, one tick apart, whose yields let no other thread run.
    fn row(past: &YieldHistory, place: usize, taken: u32, from_ticks: u64, calls: u32) -> Vec<Step> {
        let step = |call| {
            let now_ticks = from_ticks + u64::from(call);
            past.on_call(place, taken, now_ticks);
            let step = past.step(now_ticks, true, || false);
            past.on_return(now_ticks, now_ticks);
            step
        };
        (0..calls).map(step).collect()
    }

    /// A row that was found to be in vain.
    fn in_vain() -> YieldHistory {
        let past = YieldHistory::default();
        row(&past, HERE, 0, 1 << 40, FEW + 5);
        assert_ne!(past.asked_ticks.get(), 0, "it is asked");
        past.asked_cpu_ns.set(IN_VAIN);
        past
    }

    fn sleeps(steps: &[Step]) -> usize {
        steps.iter().filter(|step| matches!(step, Step::Sleep { .. })).count()
    }

    #[test]
    fn calls_of_one_place_are_passed_over_and_those_of_another_are_looked_at() {
        let past = YieldHistory::default();
        row(&past, HERE, 0, 1 << 40, 1);
        assert!(past.passes_unseen(HERE));
        assert!(!past.passes_unseen(HERE + 1), "two places in turn are no wait");
    }

    #[test]
    fn a_row_whose_yields_let_others_run_is_left_alone() {
        let past = YieldHistory::default();
        let mut now_ticks = 1 << 40;
        for _ in 0..1000 {
            past.on_call(HERE, 0, now_ticks);
            assert_eq!(past.step(now_ticks, true, || panic!("no yield was dear")), Step::Yield);
            // This thread's CPU time stands still for most of it.
            let after_ticks = now_ticks + ns_to_ticks(DEAR_NS / 2);
            assert!(!past.on_return(now_ticks, after_ticks));
            now_ticks = after_ticks;
        }
    }

    #[test]
    fn one_call_in_eight_is_looked_at_unless_a_yield_was_dear_lately() {
        let past = YieldHistory::default();
        let seen = |from_ticks: u64, took_ns: u64| {
            (0..80)
                .filter(|call| {
                    let seen = !past.passes_unseen(HERE);
                    if seen {
                        let now_ticks = from_ticks + call * 9;
                        past.on_call(HERE, 0, now_ticks);
                        past.on_return(now_ticks, now_ticks + ns_to_ticks(took_ns));
                    }
                    seen
                })
                .count()
        };
        assert_eq!(seen(1 << 40, 0), 10);
        assert_eq!(past.count.get(), 10, "of one row");
        assert_eq!(seen(1 << 41, 2 * DEAR_NS), 80);
        assert_eq!(seen(1 << 50, 0), 10, "long ago");
    }

    #[test]
    fn a_row_in_vain_sleeps_in_growing_steps_while_cpus_are_short() {
        let past = in_vain();
        let after = |waited_ns: u64, is_short| {
            let now_ticks = (1 << 40) + ns_to_ticks(waited_ns);
            past.returned_ticks.set(now_ticks);
            past.on_call(HERE, 0, now_ticks);
            past.step(now_ticks, is_short, || false)
        };
        assert_eq!(after(0, true), Step::Sleep { ns: SLEEP_NS_MIN });
        let Step::Sleep { ns } = after(4_000_000, true) else { panic!("sleeps") };
        assert!((499_000..501_000).contains(&ns), "{ns}");
        assert_eq!(after(1_000_000_000, true), Step::Sleep { ns: SLEEP_NS_MAX });
        let steps: Vec<Step> = (0..LOOK_EVERY).map(|_| after(1_000_000_000, false)).collect();
        assert_eq!(sleeps(&steps), 0);
        assert!(steps.contains(&Step::Look), "it finds out");
    }

    #[test]
    fn a_row_begins_again() {
        let begins = |place, taken, pause_ticks: u64| {
            let past = in_vain();
            let next_ticks = past.returned_ticks.get() + pause_ticks;
            sleeps(&row(&past, place, taken, next_ticks, FEW)) == 0
        };
        assert!(!begins(HERE, 0, 1), "nothing in between");
        assert!(begins(HERE + 8, 0, 1), "from another place");
        assert!(begins(HERE, 1, 1), "a lock was taken");
        assert!(begins(HERE, 0, ns_to_ticks(2 * BETWEEN_NS)), "something else took its time");
    }

    #[test]
    fn a_sleep_takes_the_place_of_a_dear_yield_if_the_trial_says_so() {
        let past = YieldHistory::default();
        let now_ticks = 1 << 40;
        past.on_call(HERE, 0, now_ticks);
        let after_ticks = now_ticks + ns_to_ticks(DEAR_NS);
        assert!(past.on_return(now_ticks, after_ticks));
        past.on_call(HERE, 0, after_ticks);
        assert_eq!(past.step(after_ticks, true, || false), Step::Yield);
        assert_eq!(past.step(after_ticks, true, || true), Step::Sleep { ns: SLEEP_NS_MIN });
        assert_eq!(past.step(after_ticks, false, || true), Step::Yield, "there is room");
        let later_ticks = after_ticks + ns_to_ticks(DEAR_FOR_NS);
        assert_eq!(past.step(later_ticks, true, || true), Step::Yield, "long ago");
    }
}
