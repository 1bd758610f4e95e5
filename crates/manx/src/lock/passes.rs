//! Whether it pays to stand by at a lock: how other threads use it, and whether they wait.
//!
//! # In use
//! A lock that is free at a look may be in use all the same: between two holds of a thread that
//! comes again and again. One such thread is enough. To take the lock then makes a big core wait
//! for a little one's hold, which is what standing by is to avoid. So threads that do not stand by
//! count their passes. A thread that stands by takes the lock when it is free and the recent passes
//! were `QUIET_NS` apart, or there were none for that long. If most looks found the lock held, the
//! thread takes it only if no other thread has passed between two looks that found it free. A
//! thread need not stand by at all if the lock is free and no thread has passed since the last one
//! that could have stood by. (The paper asks whether the queue is empty, which says as much if
//! there are several big cores.)
//!
//! # In others' way
//! To stand by costs the thread that does, and pays if its hold would make others wait. That is not
//! so at a lock that is free most of the time. So a thread that does not stand by and has to wait
//! for long, `LONG_NS`, says that as well. The next thread that might stand by then knows whether
//! that has happened since the last thread of its kind came to hold the lock. If that is rare, less
//! than a third of the times, it does not stand by. It also does not stand by if an earlier thread
//! that did found the lock held at less than an eighth of its looks: then order gains nothing,
//! however often two threads meet.
//!
//! Invariant 1: the word is written by holders only. It is a hint: whatever it says, locks exclude
//! and windows end.

use super::standby;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::{ns_to_ticks, ticks, ticks_to_ns};
use platform::thread;

/// A wait that is shorter than this is not worth what standing by costs.
const LONG_NS: u64 = 1_000;
/// A lock whose passes are this far apart is not in use.
const QUIET_NS: u64 = 10_000;

/// How threads that do not stand by use a lock. All-zero to begin with.
///
/// | bits | |
/// | --- | --- |
/// | 0 … 11 | their passes |
/// | 12 … 23 | what these were when a thread last passed that might have stood by |
/// | 24 | a thread has waited for long since |
/// | 25 … 31 | whether that is so most of the time: 0 never, 127 always; exclusive or with `SCORE_IN_THE_WAY` |
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Passes(AtomicU32);

impl Passes {
    platform::const_fn! {
        /// A lock that no thread has passed.
        pub const fn new() -> Self {
            Passes(AtomicU32::new(0))
        }
    }

    /// Counts a pass of the calling holder, which did not stand by and had to wait for
    /// `waited_ticks`.
    #[inline]
    pub fn passed(&self, waited_ticks: u64) {
        // Invariant 1. Relaxed: a hint, from which no order follows; the same holds wherever the
        // counts are read.
        let passes = self.0.load(Ordering::Relaxed);
        let waited = if waited_ticks != 0 && ticks_to_ns(waited_ticks) >= LONG_NS { WAITED } else { 0 };
        self.0.store(passes & !PASSED | passes.wrapping_add(1) & PASSED | waited, Ordering::Relaxed);
    }

    /// The calling holder might have stood by.
    #[inline]
    pub fn stood_by(&self) {
        // Invariant 1.
        let passes = self.0.load(Ordering::Relaxed);
        let (passed, score) = (passes & PASSED, score(passes));
        let score = if passes & WAITED != 0 {
            (score + 2 * SCORE_STEP).min(SCORE_MAX)
        } else {
            score.saturating_sub(SCORE_STEP)
        };
        let score = (score ^ SCORE_IN_THE_WAY) << SCORE_SHIFT;
        self.0.store(score | passed << SEEN_SHIFT | passed, Ordering::Relaxed);
    }

    /// The calling holder stood by and found nothing that it could have been in the way of.
    fn are_few(&self) {
        // Invariant 1.
        let passes = self.0.load(Ordering::Relaxed);
        let score = SCORE_IN_THE_WAY << SCORE_SHIFT;
        self.0.store(passes & (PASSED << SEEN_SHIFT | PASSED) | score, Ordering::Relaxed);
    }

    /// Returns whether a thread has passed since the last pass of a thread that might have stood
    /// by, and a hold would be in others' way.
    #[inline]
    pub fn are_in_use(&self) -> bool {
        let passes = self.0.load(Ordering::Relaxed);
        score(passes) >= SCORE_IN_THE_WAY && (passes >> SEEN_SHIFT) & PASSED != passes & PASSED
    }

    /// Stands by: looks now and then whether the lock is in use, and tries to take it if it is not,
    /// until it is had, or the window is over or the caller is not `willing` any more (`None`). A
    /// thread of a real-time class never stands by.
    #[cold]
    pub fn stand_by<H>(
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
        let (mut passed, mut since_ticks) = (self.0.load(Ordering::Relaxed), ticks());
        let before = passed;
        let quiet_ticks = ns_to_ticks(QUIET_NS);
        let (mut looks, mut found_locked, mut was_free) = (0, 0, true);
        let take = || {
            let (now, now_ticks) = (self.0.load(Ordering::Relaxed), ticks());
            let passed_ticks = now_ticks.wrapping_sub(since_ticks);
            let locked = is_locked();
            looks += 1;
            found_locked += u32::from(locked);
            let all = now.wrapping_sub(before) & PASSED;
            if !locked && looks.min(all) >= LOOKS_MIN && found_locked * FEW < looks {
                let held = try_lock();
                if held.is_some() {
                    self.are_few();
                }
                return held;
            }
            let came = u64::from(now.wrapping_sub(passed) & PASSED);
            let quiet = passed_ticks >= quiet_ticks && came * quiet_ticks <= passed_ticks;
            // Where holds are long, passes are far apart though the lock is in use all the time.
            let free = !locked && (found_locked * 2 < looks || was_free && came == 0);
            if locked || passed_ticks >= quiet_ticks || !was_free {
                (passed, since_ticks) = (now, now_ticks);
            }
            was_free = !locked;
            if quiet && free { try_lock() } else { None }
        };
        standby::poll_until_acquired(window_ns, take, willing, || false)
    }
}

/// The upper bits of [`Passes`]: what is all-zero begins in the way.
#[inline]
fn score(passes: u32) -> u32 {
    passes >> SCORE_SHIFT ^ SCORE_IN_THE_WAY
}

const PASSED: u32 = (1 << SEEN_SHIFT) - 1;
const SEEN_SHIFT: u32 = 12;
const WAITED: u32 = 1 << (2 * SEEN_SHIFT);
const SCORE_SHIFT: u32 = 2 * SEEN_SHIFT + 1;
const SCORE_MAX: u32 = u32::MAX >> SCORE_SHIFT;
/// What a pass that made no thread wait takes away from the score. A pass that made a thread wait
/// adds twice that, so that the score rises if a third of the passes make a thread wait.
const SCORE_STEP: u32 = 8;
/// From this score on it is better to stand by.
const SCORE_IN_THE_WAY: u32 = 64;
/// A thread that stands by knows how much a lock is used after this number of looks and passes …
const LOOKS_MIN: u32 = 8;
/// … and that it is too little if fewer than one look in this number found it held.
const FEW: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn long_ticks() -> u64 {
        platform::clock::init();
        ns_to_ticks(2 * LONG_NS)
    }

    #[test]
    fn a_lock_is_in_use_if_holds_made_others_wait_and_they_have_come_again() {
        let (passes, long) = (Passes::new(), long_ticks());
        assert!(!passes.are_in_use(), "nobody has passed");
        passes.passed(0);
        assert!(passes.are_in_use(), "nothing else is known");
        passes.stood_by();
        assert!(!passes.are_in_use(), "nobody has passed since");
        passes.passed(0);
        assert!(!passes.are_in_use(), "one came, but nobody had to wait");
        passes.passed(long / 4);
        passes.stood_by();
        passes.passed(0);
        assert!(!passes.are_in_use(), "one waited, but not for long");
        passes.passed(long);
        passes.stood_by();
        passes.passed(0);
        assert!(passes.are_in_use(), "one had to wait");
    }

    #[test]
    fn a_lock_that_is_hardly_used_is_not_stood_by_for_long_nor_soon_again() {
        let long = long_ticks();
        let stand_by = || {
            let passes = Passes::new();
            passes.passed(long);
            passes.stood_by();
            // Many pass between two looks, so the lock never is quiet; and it never is held.
            let mut looks = 0;
            let is_locked = || {
                (0..2_000).for_each(|_| passes.passed(0));
                false
            };
            let try_lock = || {
                looks += 1;
                Some(())
            };
            assert_eq!(passes.stand_by(u64::MAX, is_locked, try_lock, || true), Some(()));
            assert_eq!(looks, 1);
            passes
        };
        // A thread that was away for long between two looks finds the lock quiet all the same.
        let found_few = |passes: &Passes| score(passes.0.load(Ordering::Relaxed)) == 0;
        let passes = (0..100).map(|_| stand_by()).find(found_few).expect("not away each time");
        passes.stood_by();
        for _ in 0..3 {
            passes.passed(long);
            assert!(!passes.are_in_use());
            passes.stood_by();
        }
        passes.passed(long);
        passes.stood_by();
        passes.passed(0);
        assert!(passes.are_in_use(), "it is used now");
    }

    #[test]
    fn whether_holds_are_in_others_way_is_a_third_of_the_times() {
        for (waits, of, in_the_way) in [(1, 4, false), (1, 2, true), (1, 1, true), (0, 1, false)] {
            let (passes, long) = (Passes::new(), long_ticks());
            for turn in 0..100_000_u32 {
                passes.passed(if turn % of < waits { long } else { 0 });
                passes.stood_by();
            }
            let times = (0..100_000_u32).filter(|turn| {
                passes.passed(if turn % of < waits { long } else { 0 });
                let in_use = passes.are_in_use();
                passes.stood_by();
                in_use
            });
            let times = times.count();
            assert_eq!(times > 50_000, in_the_way, "{waits} of {of}: {times}");
        }
    }
}
