//! Whether it pays to stand by at a lock, learnt from the holds of threads that stand by.
//!
//! Standing by costs the thread that does, and pays if its hold would make others wait. So each
//! release of such a hold says whether a thread waits for the lock by then. If that is so at seven
//! of eight holds, threads stand by. Otherwise they enter the queue at once: a lock that others
//! seldom want at the same time serves more threads in the order of arrival. A thread that does not
//! stand by leaves a mark before it enters the queue, for the next eight such holds. Without a mark
//! no thread stands by: nobody would overtake.
//!
//! | the window of a thread that stands by | the lock is taken |
//! | --- | --- |
//! | first half | when it was free at the last `FREE_LOOKS` looks |
//! | second half | when it is free at a look |
//! | over | in the order of the lock beneath |
//!
//! In the first half a lock that is free at one look may be in use all the same: between two holds
//! of a thread that comes again and again. One such thread is enough. To take the lock then makes a
//! big core wait for a little one's hold, which is what standing by is to avoid. The paper's
//! Algorithm 1 takes it, and so gains nothing with one big thread (the README has the figures). In
//! the second half the thread will soon hold the lock in any case, and a moment in which it is free
//! costs others less than the end of the window, at which it joins the queue.
//!
//! Invariant 1: the score is a hint: whatever it says, locks exclude and windows end.

use super::standby;
use core::cell::Cell;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::{ns_to_ticks, ticks};
use platform::thread;

/// This number of looks in turn that find the lock free say that it is hardly used.
const FREE_LOOKS: u32 = 8;
/// What a hold that made a thread wait adds to the score, up to the maximum …
const WAITED: u32 = 1;
/// … and what one that made no thread wait takes away. The score rises if more than seven of eight
/// holds make a thread wait.
const NOBODY: u32 = 7;
/// From this score on a thread does not stand by: score is counted from the maximum downwards.
const PAYS_NOT: u32 = 16;
/// The score after holds that make no thread wait.
const SCORE_MAX: u32 = 80;

/// In the same word, the mark: one hold of a thread that might stand by …
const MARK_ONE: u32 = 1 << 16;
/// … and the bits of their number, for which a thread that does not stand by leaves the mark. The
/// threads of a queue take turns: a mark of one hold would be gone whenever the next thread comes
/// that might stand by.
const MARK: u32 = 8 * MARK_ONE;
/// The bits of the score.
const SCORE: u32 = MARK_ONE - 1;

/// Whether standing by pays, as a score: 0 that it does, [`SCORE_MAX`] that it does not; and the
/// mark. All-zero to begin with.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(super) struct Payoff(AtomicU32);

impl Payoff {
    platform::const_fn! {
        /// Of a lock that no thread has held.
        pub(super) const fn new() -> Self {
            Payoff(AtomicU32::new(0))
        }
    }

    /// A thread comes that does not stand by.
    #[inline]
    pub(super) fn came(&self) {
        // Relaxed: Invariant 1; the same holds wherever the word is used.
        let before = self.0.load(Ordering::Relaxed);
        // Not at each hold: a store takes the cache line away from others.
        if before < MARK / 2 {
            self.0.store(before & SCORE | MARK, Ordering::Relaxed);
        }
    }

    /// Returns whether a thread should stand by.
    #[inline]
    pub(super) fn pays(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MARK_ONE && self.has_paid()
    }

    /// Returns whether the last holds say that it pays.
    #[inline]
    fn has_paid(&self) -> bool {
        self.0.load(Ordering::Relaxed) & SCORE < PAYS_NOT
    }

    /// A thread that might have stood by has given the lock back, and a thread waits for it or
    /// none. Updates by two threads at once may lose one of them.
    #[inline]
    pub(super) fn released(&self, waited: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let score = match waited {
            true => (before & SCORE).saturating_sub(WAITED),
            false => (before & SCORE).saturating_add(NOBODY).min(SCORE_MAX),
        };
        let after = (before & !SCORE).saturating_sub(MARK_ONE) | score;
        if after != before {
            self.0.store(after, Ordering::Relaxed);
        }
    }

    /// Stands by: looks now and then whether the lock is free, and tries to take it as the table
    /// says, until it is had, or the window is over or the caller is not `willing` any more
    /// (`None`). A thread of a real-time class never stands by.
    #[cold]
    pub(super) fn stand_by<H>(
        &self,
        window_ns: u64,
        is_locked: impl Fn() -> bool,
        mut try_lock: impl FnMut() -> Option<H>,
        willing: impl Fn() -> bool,
    ) -> Option<H> {
        if thread::scheduling_class().yields_only_to_equals() {
            return None;
        }
        platform::clock::init();
        let (began_ticks, half_ticks) = (ticks(), ns_to_ticks(window_ns / 2));
        let free_looks = Cell::new(0);
        let take = || {
            free_looks.set(if is_locked() { 0 } else { free_looks.get() + 1 });
            let is_second_half = ticks().wrapping_sub(began_ticks) >= half_ticks;
            let wanted = if is_second_half || !self.has_paid() { 1 } else { FREE_LOOKS };
            if free_looks.get() >= wanted { try_lock() } else { None }
        };
        standby::poll_until_acquired(window_ns, take, willing, || free_looks.get() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standing_by_pays_if_seven_of_eight_holds_make_a_thread_wait() {
        for (waited, of, pays) in [(7, 8, true), (6, 8, false), (1, 1, true), (0, 1, false), (1, 2, false)] {
            let payoff = Payoff::new();
            assert!(!payoff.pays(), "nobody has come");
            payoff.came();
            assert!(payoff.pays(), "nothing else is known");
            (0..10_000_u32).for_each(|hold| payoff.released(hold % of < waited));
            payoff.came();
            assert_eq!(payoff.pays(), pays, "{waited} of {of}");
        }
    }

    #[test]
    fn a_lock_that_is_used_again_is_stood_by_again() {
        let payoff = Payoff::new();
        (0..100).for_each(|_| payoff.released(false));
        payoff.came();
        assert!(!payoff.pays());
        (0..=SCORE_MAX - PAYS_NOT).for_each(|_| payoff.released(true));
        payoff.came();
        assert!(payoff.pays());
    }

    #[test]
    fn a_lock_that_is_free_between_holds_is_not_taken_in_the_first_half() {
        let payoff = Payoff::new();
        for busy_every in [2, FREE_LOOKS] {
            let looks = Cell::new(0_u32);
            let is_locked = || {
                looks.set(looks.get() + 1);
                looks.get().is_multiple_of(busy_every)
            };
            // Far from the half of its window.
            let willing = || looks.get() < 4 * FREE_LOOKS;
            assert_eq!(payoff.stand_by(u64::MAX / 4, is_locked, || Some(()), willing), None);
        }
        let looks = Cell::new(0);
        let is_locked = || looks.replace(looks.get() + 1) == 0;
        assert_eq!(payoff.stand_by(u64::MAX / 4, is_locked, || Some(()), || true), Some(()));
        assert_eq!(looks.get(), FREE_LOOKS + 1);
    }

    #[test]
    fn a_free_lock_is_taken_at_once_if_standing_by_does_not_pay() {
        let payoff = Payoff::new();
        (0..100).for_each(|_| payoff.released(false));
        assert_eq!(payoff.stand_by(u64::MAX / 4, || false, || Some(()), || true), Some(()));
    }
}
