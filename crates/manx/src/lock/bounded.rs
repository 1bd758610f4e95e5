//! The default lock's algorithm: those who run may overtake those who sleep, for a window.
//!
//! When there are more threads than CPUs, a lock that is handed over in the order of arrival stands still
//! most of the time, because whose turn it is does not run. A lock that anybody may take when it is free keeps
//! moving, and starves somebody who sleeps. Here a waiter may be overtaken until its *window* is over. Then
//! it is *overdue*, and whoever releases the lock does not free it but offers it to those overdue.
//!
//! # State
//! Two words of 32 bits that need not be neighbours, and no pointer in either, so that they fit where a
//! `pthread_mutex_t` has room, and a child that was forked while others waited finds no ghosts.
//!
//! | `word` | meaning |
//! | --- | --- |
//! | 0 | free |
//! | 1 | held, and nobody sleeps |
//! | 2 | held, and perhaps somebody sleeps |
//! | 3 | held, nobody sleeps, and the holder looks at its slice when it releases (`slice.rs`) |
//! | 2 + [`MARKED`] | the same, and perhaps somebody is overdue |
//!
//! | `side` | meaning |
//! | --- | --- |
//! | [`OFFERED`] | nobody holds the lock, although `word` says so: it is on offer |
//! | [`OVERDUE_ONE`] × n | so many waiters are overdue |
//! | bit 15 | the next one that is woken and finds the lock taken is overdue at once ([`release_fair`]) |
//! | 5 bits from bit 16 on | how many waiters sleep, as far as they are counted ([`Wait::each_ns`]) |
//! | 3 bits from bit 21 on | what it has learnt about waking, and [`STANDBY`]: a waiter looks by itself (`standby.rs`) |
//! | 8 bits from bit 24 on | the lock's window, if it has one of its own ([`with_window_ns`]) |
//!
//! The values 0, 1 and 2 are those of the GNU C library's own mutexes, whose functions may work on the same
//! `word` at the same time: they take it by 0 → 1 or 0 → 2, say by any → 2 that they sleep, and free it by
//! any → 0. All they can destroy is the mark, which costs time: see *Healing*.
//!
//! # Waiting
//! A waiter spins while that is known to pay, then sleeps on `word` until it is woken or its window is over.
//! One that is overdue counts itself in `side`, marks `word`, spins once more, because now it runs and can be
//! served without delay, and then sleeps on `side`. The kernel's queues are first in, first out.
//!
//! # Release
//! From 1 to 0 nobody needs to know. From 2 to 0 one sleeper is woken, unless one stands by, and whoever runs may take
//! the lock before it comes. With a mark and a count, `side` becomes `OFFERED`, `word` stays as it is, and one of those
//! overdue is woken. Whoever takes the offer counts one down.
//!
//! # Invariants
//! 1. A thread holds the lock from the step that made `word` differ from 0, or that took `OFFERED` away,
//!    until the step of its own that makes `word` 0 or sets `OFFERED`. There is one such thread at most:
//!    `OFFERED` is set by holders only, and while it is set `word` is not 0.
//! 2. After that last step a release touches neither word; it gives their addresses to the kernel, as names.
//!    Whoever came next may have freed the memory.
//! 3. Who sleeps on `word` made it 2 or more, or saw it so, and who acquires after having slept leaves 2 behind:
//!    the release of a lock on which somebody sleeps is never the quick one.
//! 4. Who sleeps on `side` is counted there, and `word` was marked after the count (a full fence between). A
//!    release that sees the mark reads the count; one that finds no count takes the mark away, and reads
//!    the count again (a full fence between) before it frees. So either the release sees the count, or the
//!    waiter sees that the mark is gone and sets it again, and the step to 0 fails.
//! 5. While `STANDBY` is set, the waiter that set it last looks at `word` from time to time. It takes the bit away
//!    when it holds the lock and has left 2 behind, or marks `word` afterwards (a full fence between). So a
//!    release that saw the bit and woke nobody leaves the sleepers to somebody who comes: if the bit was
//!    taken away since, then either `word` has changed, so that the step to 0 fails, or it was 0 when it was to be marked,
//!    and whoever was to mark it has it.
//!
//! # The bound
//! A waiter's window is [`Wait::window_ns`], or [`Wait::each_ns`] for each waiter that slept when it came, if that is longer.
//! Each hand-over costs tens of microseconds: the next holder has to get a CPU, and what the lock protects has to follow.
//! Many waiters with short windows would spend most of the lock's time on that.
//!
//! A waiter sleeps for at most its window, gets a CPU after some time in the run queue, and is then one of n
//! who are overdue. From there on each release serves one of them, those who sleep on `side` in order. So it holds the
//! lock after at most: window + time in the run queue + (n + 1) × the longest hold. While there is an
//! offer, or a count, nobody else can take the lock.
//!
//! # Healing
//! The C library may overwrite a mark. So the sleeps of a waiter that does not trust ([`Wait::trusting`]) end after a while, in
//! growing steps, and the waiter sets the mark again.
//!
//! In the child of a fork, waiters are counted that are not there, and nobody takes an offer that was made to them. So in such a
//! child all waiters wake up after a while, and a waiter whose window ends takes an offer that it saw both before and after its
//! last sleep. That puts one count right. It may also take the place of a waiter that is there: that one finds itself uncounted
//! when it looks the next time, and counts itself again. Nowhere else does a waiter take an offer without being counted:
//! the waiter whose place it took would sleep on, and no release would see it. Exclusion does not depend on counts.
//!
//! # Memory orderings
//! Each step that acquires is `Acquire`, each that releases is `Release` (Invariant 1), and they are all on
//! `word`, or on `side` for an offer. What orders the count against the mark are two fences (Invariant 4). The kernel
//! compares a word again before it lets a thread sleep on it.

use super::window::window_ns;
use super::{slice, spin, standby};
use crate::cpu::shortage::refresh_if_old_at;
use platform::atomic::{AtomicU32, Ordering, fence};
use platform::clock;
use platform::fork;
use platform::futex::{self, Clock, Deadline, Outcome};

pub use super::slice::Thread;
pub use super::standby::{STANDBY, about_to_stand_by};
pub use super::window::{
    EPOCH_WINDOW_NS_MIN, UNBOUNDED_NS, WINDOW_NS, WINDOW_NS_MAX, in_epoch, with_window_ns,
};

/// `word`: held.
const HELD: u32 = 1;
/// `word`: held, and perhaps somebody sleeps.
const SLEEPERS: u32 = 2;
/// `word`: held, nobody sleeps, and the holder may yield when it releases.
const YIELDING: u32 = 3;
/// `word`: perhaps somebody is overdue; with 2 only.
pub const MARKED: u32 = 4;

/// `side`: the lock is on offer to those overdue.
pub const OFFERED: u32 = 1;
/// `side`: one waiter that is overdue.
pub const OVERDUE_ONE: u32 = 2;
/// `side`: the bits in which those overdue are counted.
const OVERDUE: u32 = 0x7fff & !OFFERED;
/// `side`: the next waiter that was woken and finds the lock taken is overdue at once.
const FAIR: u32 = 0x8000;
/// `side`: one waiter that sleeps and is counted.
const ASLEEP_ONE: u32 = 1 << 16;
/// `side`: the bits in which these are counted.
const ASLEEP: u32 = 31 << 16;

/// The shortest time after which a waiter that is overdue looks for itself. Longer than a kernel's tick, so that most of these timers need not be
/// programmed.
const PATIENCE_NS_MIN: u64 = 5_000_000;
/// The longest.
const PATIENCE_NS_MAX: u64 = 1_000_000_000;

/// How to wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    /// How long those who run may overtake this waiter, in nanoseconds; [`UNBOUNDED_NS`] for ever. `None`: as
    /// long as the lock says.
    pub window_ns: Option<u64>,
    /// The window is at least this time for each waiter that sleeps already and for this one, in nanoseconds. 0: their
    /// number does not matter, and this waiter is not counted. No more than 31 are.
    pub each_ns: u64,
    /// When to give up.
    pub deadline: Option<Deadline>,
    /// Whether to sleep without looking after a while whether a mark was lost. Right only where nobody else's code works
    /// on the same lock.
    pub trusting: bool,
}

/// What it took to acquire the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acquired {
    /// Times that this waiter slept.
    pub sleeps: u32,
    /// Whether its window was over.
    pub overdue: bool,
    /// Whether the lock was offered to it, rather than found free.
    pub offered: bool,
}

/// The deadline of a wait was over before the lock could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// Takes the lock if it is free.
#[inline(always)]
pub fn try_acquire(word: &AtomicU32) -> bool {
    // Acquire pairs with the release of whoever made it 0.
    word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes an offer at once, although the caller has not waited. For the children of a fork only, where those that it was made to
/// do not exist: elsewhere it is for those overdue.
#[cold]
pub fn try_take_offer(side: &AtomicU32) -> bool {
    // Relaxed: the exchange decides.
    let seen = side.load(Ordering::Relaxed);
    let count = if seen & OVERDUE == 0 { 0 } else { OVERDUE_ONE };
    // Acquire pairs with the release in `offer` (Invariant 1).
    seen & OFFERED != 0
        && side
            .compare_exchange(seen, (seen & !OFFERED) - count, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
}

/// Releases the lock, if nobody has to be told.
#[inline(always)]
pub fn try_release(word: &AtomicU32) -> bool {
    word.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// Waits for the lock.
///
/// # Errors
/// The deadline is over.
#[cold]
pub fn acquire_slow(
    word: &AtomicU32,
    side: &AtomicU32,
    thread: &Thread,
    wait: &Wait,
) -> Result<Acquired, TimedOut> {
    thread.met_contention();
    let now_ticks = clock::ticks();
    refresh_if_old_at(now_ticks);
    let to = if thread.is_over(now_ticks) { YIELDING } else { HELD };
    // While a waiter stands by, the lock is held nearly all the time, and moving it to another CPU is what costs most.
    let acquired = if standby::is_there(side) {
        spin::look(word, to)
    } else {
        let limit_ns = if wait.trusting { spin::LIMIT_OWN_NS } else { spin::LIMIT_NS };
        spin::until_acquired(word, thread, to, limit_ns, now_ticks)
    };
    if acquired {
        return Ok(Acquired::default());
    }
    let mut waiter = Waiter {
        word,
        side,
        thread,
        wait,
        window_ns: wait.window_ns.unwrap_or_else(|| window_ns(side.load(Ordering::Relaxed))),
        began_ns: clock::now_ns(),
        patience_ns: 0,
        got: Acquired::default(),
    };
    let counted = waiter.count();
    let result = waiter.sleep_until_acquired();
    if counted {
        // Relaxed: a hint.
        side.fetch_sub(ASLEEP_ONE, Ordering::Relaxed);
    }
    thread.slept();
    result.map(|()| waiter.got)
}

/// Releases a lock that [`try_release`] could not.
#[cold]
pub fn release_slow(word: &AtomicU32, side: &AtomicU32, thread: &Thread) {
    release_and_wake(word, side, false);
    slice::maybe_yield(thread);
}

/// Releases the lock to who waits, rather than to who runs: one overdue if there is any, and otherwise the first
/// sleeper, who may be overtaken only by those that take the lock before it runs.
#[cold]
pub fn release_fair(word: &AtomicU32, side: &AtomicU32) {
    // Relaxed: a hint, given while the lock is still held.
    side.fetch_or(FAIR, Ordering::Relaxed);
    if release_and_wake(word, side, true) {
        platform::thread::yield_now();
    }
}

/// Returns whether somebody was woken; `surely`: even if somebody stands by.
fn release_and_wake(word: &AtomicU32, side: &AtomicU32, surely: bool) -> bool {
    loop {
        // Relaxed: what is decided by it is checked by the steps below.
        let seen = word.load(Ordering::Relaxed);
        if seen & MARKED != 0 {
            if offer(side) {
                return true;
            }
            // Nobody is overdue. AcqRel would do for the step; the fence is that of Invariant 4.
            let unmarked = seen & !MARKED;
            let _ = word.compare_exchange(seen, unmarked, Ordering::Relaxed, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if offer(side) {
                return true;
            }
            continue;
        }
        // Invariant 5, and before the step, because of Invariant 2.
        let wakes = seen == SLEEPERS && (surely || !standby::is_there(side));
        if word.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return wakes && futex::wake(word, 1) > 0;
        }
    }
}

/// Offers the lock to those overdue, if there are any.
fn offer(side: &AtomicU32) -> bool {
    // Relaxed: counts are hints, and Invariant 4 has a fence before the look that matters.
    let mut seen = side.load(Ordering::Relaxed);
    while seen & OVERDUE != 0 {
        // Release: this is the step that gives the lock away (Invariant 1).
        match side.compare_exchange_weak(seen, seen | OFFERED, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                futex::wake(side, 1);
                return true;
            }
            Err(now) => seen = now,
        }
    }
    false
}

/// A thread that has stopped spinning.
struct Waiter<'a> {
    word: &'a AtomicU32,
    side: &'a AtomicU32,
    thread: &'a Thread,
    wait: &'a Wait,
    window_ns: u64,
    began_ns: u64,
    /// How long the last sleep was meant to be.
    patience_ns: u64,
    got: Acquired,
}

impl Waiter<'_> {
    /// Counts this waiter among those that sleep, and makes its window long enough for them. Returns whether it was counted.
    fn count(&mut self) -> bool {
        // In a forked child some of them are not there.
        if self.wait.each_ns == 0 || fork::is_child() {
            return false;
        }
        // Relaxed: a hint.
        let mut seen = self.side.load(Ordering::Relaxed);
        loop {
            let asleep = u64::from((seen & ASLEEP) / ASLEEP_ONE) + 1;
            self.window_ns = self.window_ns.max(asleep * self.wait.each_ns);
            if seen & ASLEEP == ASLEEP {
                return false;
            }
            let counted = seen + ASLEEP_ONE;
            match self.side.compare_exchange_weak(seen, counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    fn sleep_until_acquired(&mut self) -> Result<(), TimedOut> {
        if self.window_ns > 0 && self.sleep_on_word()? {
            return Ok(());
        }
        self.sleep_on_side()
    }

    /// Until the lock was acquired (true) or the window is over (false).
    fn sleep_on_word(&mut self) -> Result<bool, TimedOut> {
        let window_end_ns = self.began_ns.saturating_add(self.window_ns);
        let bounded = self.window_ns != UNBOUNDED_NS;
        let mut offered = 0;
        loop {
            let Some(seen) = self.take_or_mark(SLEEPERS) else { return Ok(true) };
            let until = bounded.then_some(Deadline { clock: Clock::Monotonic, ns: window_end_ns });
            // Relaxed: only compared with what is seen after the sleep.
            offered = if bounded { self.side.load(Ordering::Relaxed) } else { offered };
            match self.sleep(self.word, seen, until) {
                Outcome::TimedOut => self.check_deadline()?,
                Outcome::Woken => {
                    self.got.sleeps += 1;
                    if self.is_next() {
                        return Ok(self.take_or_mark(SLEEPERS).is_none());
                    }
                    if spin::after_sleep(self.word, self.thread, SLEEPERS) {
                        standby::found_free(self.side);
                        return Ok(true);
                    }
                    if standby::woken_in_vain(self.side) {
                        return self.stand_by(window_end_ns);
                    }
                }
                Outcome::Changed | Outcome::Interrupted => {}
            }
            if bounded && clock::now_ns() >= window_end_ns {
                let now = self.side.load(Ordering::Relaxed);
                let same = (now ^ offered) & (OVERDUE | OFFERED) == 0;
                // See *Healing*.
                let nobodys = offered & OFFERED != 0 && same && fork::is_child();
                return Ok(nobodys && self.accept(now));
            }
        }
    }

    /// Whether this one is overdue at once, because of a fair release.
    fn is_next(&self) -> bool {
        // Relaxed: a hint.
        self.side.load(Ordering::Relaxed) & FAIR != 0
            && self.side.fetch_and(!FAIR, Ordering::Relaxed) & FAIR != 0
    }

    /// Looks now and then until the lock was acquired (true) or the window is over (false).
    fn stand_by(&mut self, window_end_ns: u64) -> Result<bool, TimedOut> {
        let nobody = AtomicU32::new(0);
        let mut quiet_ns = standby::QUIET_NS_MIN;
        loop {
            let until_ns = clock::now_ns().saturating_add(quiet_ns).min(window_end_ns);
            self.sleep(&nobody, 0, Some(Deadline { clock: Clock::Monotonic, ns: until_ns }));
            self.got.sleeps += 1;
            quiet_ns = (quiet_ns * 2).min(standby::QUIET_NS_MAX);
            if standby::is_idle(self.word) && spin::look(self.word, SLEEPERS) {
                standby::found_free(self.side);
                standby::ends(self.side);
                return Ok(true);
            }
            let timed_out = self.check_deadline();
            if timed_out.is_err() || self.is_next() || clock::now_ns() >= window_end_ns {
                standby::ends(self.side);
                // Invariant 5.
                fence(Ordering::SeqCst);
                let acquired = self.take_or_mark(SLEEPERS | MARKED).is_none();
                return if acquired { Ok(true) } else { timed_out.map(|()| false) };
            }
        }
    }

    /// Overdue: until the lock was acquired.
    fn sleep_on_side(&mut self) -> Result<(), TimedOut> {
        self.got.overdue = true;
        self.join();
        let mut spun = false;
        loop {
            let seen = self.side.load(Ordering::Relaxed);
            if seen & OFFERED != 0 {
                if self.accept(seen) {
                    return Ok(());
                }
                continue;
            }
            if seen & OVERDUE == 0 {
                // Counted no more: an offer was taken in this thread's stead.
                self.join();
                continue;
            }
            // Invariant 4: counted, fence, mark. It may be free, if the release did not see the count.
            fence(Ordering::SeqCst);
            if self.take_or_mark(SLEEPERS | MARKED).is_none() {
                self.leave();
                return Ok(());
            }
            if !spun {
                spun = true;
                if spin::until_offered(self.side) {
                    continue;
                }
            }
            let until = (!self.wait.trusting || fork::is_child()).then(|| self.next_look());
            let outcome = self.sleep(self.side, seen, until);
            match outcome {
                Outcome::TimedOut => {
                    if let Err(over) = self.check_deadline() {
                        // An offer may have come for this thread, and its wake-up been meant for it.
                        return if self.leave_or_accept() { Ok(()) } else { Err(over) };
                    }
                }
                Outcome::Woken => self.got.sleeps += 1,
                Outcome::Changed | Outcome::Interrupted => {}
            }
        }
    }

    /// Takes the lock if it is free; otherwise makes sure that `word` has all of `bits`, and returns it.
    fn take_or_mark(&self, bits: u32) -> Option<u32> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let wanted = if seen == 0 { SLEEPERS } else { seen & MARKED | bits };
            if seen == wanted {
                return Some(seen);
            }
            // Acquire for the case that it was free: pairs with the release. Who has slept leaves 2
            // behind (Invariant 3).
            match self.word.compare_exchange_weak(seen, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(0) => return None,
                Ok(_) => return Some(wanted),
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the offer that `seen`, a value of `side`, contains, and counts one down.
    fn accept(&mut self, seen: u32) -> bool {
        let left = if seen & OVERDUE == 0 { seen & !OFFERED } else { (seen & !OFFERED) - OVERDUE_ONE };
        // Acquire pairs with the release in `offer`.
        if self.side.compare_exchange(seen, left, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        self.got.offered = true;
        if left & OVERDUE != 0 {
            // Others are overdue, and the release may have taken their mark away before it saw them.
            self.take_or_mark(SLEEPERS | MARKED);
        }
        true
    }

    /// Gives up: counts this thread no more. If there is an offer, its wake-up may have been meant for this
    /// thread, which must take it (true).
    fn leave_or_accept(&mut self) -> bool {
        loop {
            let seen = self.side.load(Ordering::Relaxed);
            if seen & OFFERED != 0 {
                if self.accept(seen) {
                    return true;
                }
            } else if seen & OVERDUE == 0
                || self
                    .side
                    .compare_exchange(seen, seen - OVERDUE_ONE, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return false;
            }
        }
    }

    /// Counts this thread among those overdue.
    fn join(&self) {
        let mut seen = self.side.load(Ordering::Relaxed);
        while seen & OVERDUE != OVERDUE {
            let counted = seen + OVERDUE_ONE;
            match self.side.compare_exchange_weak(seen, counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Counts this thread no more.
    fn leave(&self) {
        let mut seen = self.side.load(Ordering::Relaxed);
        while seen & OVERDUE != 0 {
            let counted = seen - OVERDUE_ONE;
            match self.side.compare_exchange_weak(seen, counted, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// When a sleeper that does not trust looks again.
    fn next_look(&mut self) -> Deadline {
        self.patience_ns = (self.patience_ns * 2).clamp(PATIENCE_NS_MIN, PATIENCE_NS_MAX);
        Deadline { clock: Clock::Monotonic, ns: clock::now_ns().saturating_add(self.patience_ns) }
    }

    /// Sleeps until then, or until the deadline if that comes first.
    fn sleep(&self, place: &AtomicU32, seen: u32, until: Option<Deadline>) -> Outcome {
        let nearer = match (until, self.wait.deadline) {
            (Some(until), Some(deadline)) if until.left_ns() < deadline.left_ns() => Some(until),
            (until, None) => until,
            (_, deadline) => deadline,
        };
        futex::wait_set(place, seen, futex::ANY_SET, nearer)
    }

    fn check_deadline(&self) -> Result<(), TimedOut> {
        match self.wait.deadline {
            Some(deadline) if deadline.left_ns() == 0 => Err(TimedOut),
            _ => Ok(()),
        }
    }
}
