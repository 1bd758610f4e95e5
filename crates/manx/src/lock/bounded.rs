//! The default lock's algorithm: running threads may overtake sleeping ones, for a window.
//!
//! When there are more threads than CPUs, a lock that is handed over in the order of arrival stands
//! still most of the time, because the next thread in line does not run. A free lock that any
//! thread may take keeps moving, and starves a sleeping thread. Here a waiter may be overtaken
//! until its *window* is over. Then it is *starving*: the next release does not free the lock but
//! hands it off to the starving waiters.
//!
//! # State
//! Two words of 32 bits that need not be neighbours, and no pointer in either, so that they fit
//! where a `pthread_mutex_t` has room, and a child that was forked while others waited finds no
//! ghosts. This file alone changes them, but for the step of `word` from free to held: waiters that
//! spin take that, too (`spinning.rs`, `line.rs`).
//!
//! | `word` | meaning |
//! | --- | --- |
//! | 0 | free |
//! | 1 | held, and no thread sleeps |
//! | 2 | held, and perhaps a thread sleeps |
//! | 3 | held, no thread sleeps, and the holder looks at its slice when it releases (`slice.rs`) |
//! | 2 + [`MARKED`] | held, perhaps threads sleep, and perhaps a waiter is starving |
//!
//! | `side` | meaning |
//! | --- | --- |
//! | [`HANDED_OFF`] | no thread holds the lock, although `word` says so: it is handed off |
//! | [`STARVING_ONE`] × n | n waiters are starving |
//! | bits 20 to 22 | waiters that were passed over |
//! | bit 15 | the next waiter that is woken and finds the lock taken is starving at once ([`release_fair`]) |
//! | 4 bits from bit 16 on | how many more looks after a sleep were in vain than not, at most 15 |
//! | [`POLLING`] | a waiter polls: it looks at the lock by itself |
//! | 8 bits from bit 24 on | the lock's window, if it has one of its own ([`with_window_ns`]) |
//!
//! The values 0, 1 and 2 are those of the GNU C library's own mutexes, whose functions may work on
//! the same `word` at the same time: they take it by 0 → 1 or 0 → 2, say by any → 2 that they
//! sleep, and free it by any → 0. All they can destroy is the mark, which costs time: see
//! *Healing*.
//!
//! # Waiting
//! A waiter spins while that is known to pay, then sleeps on `word` until it is woken or its window
//! is over. A starving waiter counts itself in `side`, marks `word`, spins once more, because now
//! it runs and can be served without delay, and then sleeps on `side`. The kernel's queues are
//! first in, first out.
//!
//! # Release
//! From 1 to 0 no other thread needs to know. From 2 to 0 the release wakes one sleeper, unless one
//! polls, and any running thread may take the lock before that sleeper runs. With a mark and a
//! count, `side` becomes `HANDED_OFF`, `word` stays as it is, and the release wakes one starving
//! waiter. The waiter that takes the hand-off counts one down.
//!
//! Any starving waiter that runs may take the hand-off before the woken one does, so that no
//! release waits for the scheduler. The woken waiter then finds it taken, and is *passed over*: it
//! counts itself as such in `side`, and from then on only such waiters take hand-offs, and only
//! they are woken for them. Without that, a waiter could be passed over for ever by threads that
//! are served and starve again before it runs: where windows are shorter than the turns of all
//! waiters.
//!
//! # Spinning
//! A waiter spins before it sleeps, and looks seldom (`spinning.rs`).
//!
//! At the library's own mutexes, in a process that uses more than two CPUs, waiters spin in a line
//! (`line.rs`). Only the first waiter of the line looks at the lock. Waiters spin for as long as
//! the line moves, but for no more than half of their window, or `LINE_NS_MIN` if that is longer.
//! While threads have CPUs to spin on, no waiter sleeps, so no waiter begins to poll (below).
//!
//! # The waiter that polls
//! Some locks are held nearly all the time by the running threads: a database's one connection, a
//! log. To wake a sleeper whenever such a lock is released is in vain. The lock was free for an
//! instant, and the thread that released it has taken it again long before the sleeper runs; the
//! sleeper sleeps again and asks to be woken. Each round costs the holder a system call, and a CPU
//! two changes of context. New waiters, and those whose sleep ends by the clock, start more such
//! rounds at the same time.
//!
//! Therefore, once three more looks of waiters that had slept were in vain than not
//! (`FUTILE_POLLS`), the lock is *busy* and a waiter polls: it sets [`POLLING`], sleeps by the
//! clock, and looks at the lock after 50 µs, 100 µs, 200 µs, 400 µs. While the bit is set, releases
//! wake no thread, and new waiters look once and sleep.
//!
//! The waiter that polls does not take such a lock in the instant between two holds: with the
//! lock, all that it protects would move to another CPU. It takes a lock that stays free for
//! `IDLE_LOOKS` looks; that counts against polling, and each look in vain counts for it. A lock
//! that is used goes to it when its window is over. Then the next waiter polls that comes or is
//! woken, and does not try to take the lock: two threads that run and take it in turn would leave
//! its sleepers to be woken by each release. (The count goes up to 15, because a waiter that polls
//! often finds the lock free only because it has just preempted the thread that uses it.)
//!
//! A thread that polled when the process was forked is not there in the child. So children of a
//! fork that go on with several threads neither poll nor look at the bit ([`fork::is_child`]).
//!
//! # Invariants
//! 1. A thread holds the lock from the step that made `word` differ from 0, or that took
//!    `HANDED_OFF` away, until the step of its own that makes `word` 0 or sets `HANDED_OFF`. There
//!    is one such thread at most: `HANDED_OFF` is set by holders only, and while it is set `word`
//!    is not 0.
//! 2. After that last step a release touches neither word; it gives their addresses to the kernel,
//!    as names. The next holder may have freed the memory.
//! 3. A waiter that sleeps on `word` made it 2 or more, or saw it so, and a waiter that acquires
//!    after a sleep leaves 2 behind: the release of a lock on which a thread sleeps is never the
//!    quick one.
//! 4. A waiter that sleeps on `side` is counted there, and `word` was marked after the count (a
//!    full fence between). A release that sees the mark reads the count; one that finds no count
//!    takes the mark away, and reads the count again (a full fence between) before it frees. So
//!    either the release sees the count, or the waiter sees that the mark is gone and sets it
//!    again, and the step to 0 fails.
//! 5. While `POLLING` is set, the waiter that set it last looks at `word` from time to time. It
//!    takes the bit away when it holds the lock and has left 2 behind, or marks `word` afterwards
//!    (a full fence between). So a release that saw the bit and woke no thread leaves the sleepers
//!    to a thread that comes: if the bit was taken away since, then either `word` has changed, so
//!    that the step to 0 fails, or it was 0 when it was to be marked, and the waiter that was to
//!    mark it holds the lock.
//!
//! 6. While waiters are counted as passed over, only they take hand-offs. Such a waiter runs, or
//!    sleeps on `side` in `PASSED_OVER_SET`; a hand-off that saw the count wakes that set, and
//!    one that did not is seen by the waiter once it has counted itself.
//!
//! # The bound
//! A waiter's window is [`Wait::window_ns`], and where waiters book turns ([`Wait::turns`]) it
//! lasts until the waiter's turn.
//!
//! A waiter waits for at most its window, gets a CPU after some time in the run queue, and is then
//! one of n starving waiters. From there on each release serves one of them, and takes one out of
//! the kernel's queue of those that sleep on `side`, unless a waiter that was passed over is
//! served. So it is woken after at most 2n releases, as each in front of it may be passed over
//! once, and if it is passed over itself, at most n more. It holds the lock after at most: window +
//! time in the run queue + (3n + 1) × the longest hold. Where windows are longer than the turns of
//! all, so that no thread starves twice, n + 1 holds are enough. While there is a hand-off, or a
//! count, no other thread can take the lock. The count ends at 16,383: further waiters sleep on
//! `word`, and look every `RECHECK_NS_MIN` whether there is room for them.
//!
//! # Healing
//! The C library may overwrite a mark. So the sleeps of a waiter that does not trust
//! ([`Wait::trusting`]) end after a while, in growing steps, and the waiter sets the mark again.
//!
//! A process that ends may leave a waiter counted as passed over. So a waiter that does not trust,
//! and has seen the same hand-off for a whole sleep, takes it and forgets this count.
//!
//! In the child of a fork, waiters are counted that are not there, and no thread takes a hand-off
//! that was made to them. So in such a child all waiters wake up after a while, and a waiter whose
//! window ends, and that has seen one hand-off unmoved for `UNMOVED` sleeps more, takes it. That
//! puts one count right. It may also take the place of a waiter that is there: that one finds
//! itself uncounted when it looks the next time, and counts itself again. Nowhere else does a
//! waiter take a hand-off without being counted: the waiter whose place it took would sleep on, and
//! no release would see it. Exclusion does not depend on counts.
//!
//! # Memory orderings
//! Each step that acquires is `Acquire`, each that releases is `Release` (Invariant 1), and they
//! are all on `word`, or on `side` for a hand-off. What orders the count against the mark are two
//! fences (Invariant 4). The kernel compares a word again before it lets a thread sleep on it.

use super::line::{self, Came, Turn};
use super::slice;
use super::spinning::{
    SPIN_NS, SPIN_OWN_NS, look, pause_for, spin_after_sleep, spin_if_it_pays, spin_while, spins, spun,
};
use super::turns;
use super::words::{
    FAIR, FUTILE, FUTILE_ONE, FUTILE_POLLS, HELD, PASSED_OVER, PASSED_OVER_ONE, SLEEPERS, STARVING, YIELDING,
};
use crate::cpu::shortage::refresh_if_old_at;
use core::cell::OnceCell;
use platform::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use platform::clock::{self, ns_to_ticks, ticks};
use platform::constant::Constant;
use platform::cpu::pause;
use platform::fork;
use platform::futex::{self, Clock, Deadline, Outcome};

pub use super::slice::Thread;
pub(super) use super::window::window_ns;
pub use super::window::{
    EPOCH_WINDOW_NS_MIN, UNBOUNDED_NS, WINDOW_NS, WINDOW_NS_MAX, window_in_epoch, with_window_ns,
};
pub use super::words::{HANDED_OFF, MARKED, POLLING, STARVING_ONE};

/// While more waiters than these are starving, none of them spins: most hand-offs are for others.
const FEW_STARVING: u32 = 2 * STARVING_ONE;

/// The set of the sleepers on `side` that were not passed over …
const COUNTED_SET: u32 = 1;
/// … and of those that were.
const PASSED_OVER_SET: u32 = 2;

/// In the child of a fork, a hand-off that has not moved for this number of sleeps of
/// [`RECHECK_NS_MIN`] is nobody's: longer than a woken thread usually waits for a CPU.
const UNMOVED: u32 = 20;

/// How often a waiter compares the word in vain before it exchanges it.
const COMPARISONS: u32 = 8;

/// How long a waiter that polls sleeps before its first look …
const QUIET_NS_MIN: u64 = 50_000;
/// … and how long at most. It doubles each time.
const QUIET_NS_MAX: u64 = 400_000;
/// The number of looks in a row that must find a lock free before it counts as idle.
const IDLE_LOOKS: u32 = 4;
/// The time between two of these looks.
const IDLE_LOOK_INTERVAL_NS: u64 = 700;
/// A starving waiter looks for itself after this time at the earliest. The time is longer than a
/// kernel's tick, so that most of these timers need not be programmed.
const RECHECK_NS_MIN: u64 = 5_000_000;
/// A starving waiter looks for itself after this time at the latest.
const RECHECK_NS_MAX: u64 = 1_000_000_000;

/// A waiter that stands in line does not ask for its window before this time.
pub(super) const LINE_NS_MIN: Constant = Constant::new("LINE_NS_MIN", 100_000);
/// How long a starving waiter spins before it sleeps until it is served.
pub(super) const SPIN_STARVING_NS: Constant = Constant::new("SPIN_STARVING_NS", 20_000);

/// How to wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait<'a> {
    /// How long running threads may overtake this waiter, in nanoseconds; [`UNBOUNDED_NS`]: for
    /// ever. `None`: as long as the lock says.
    pub window_ns: Option<u64>,
    /// Where the waiters of this lock book turns (`turns.rs`): a window of more than 0 lasts until
    /// the waiter's turn. Readers-writer locks ignore it.
    pub turns: Option<&'a AtomicU64>,
    /// When to give up.
    pub deadline: Option<Deadline>,
    /// Whether to sleep without looking after a while whether a mark was lost. Right only where no
    /// code but ours works on the same lock.
    pub trusting: bool,
}

/// What it took to acquire the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acquired {
    /// Times that this waiter slept.
    pub sleeps: u32,
    /// Whether its window was over.
    pub starving: bool,
    /// Whether the lock was handed to it, rather than found free.
    pub handed_off: bool,
}

/// The deadline of a wait was over before the lock could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

/// Takes the lock if it is free.
#[inline(always)]
pub fn try_acquire(word: &AtomicU32) -> bool {
    // Acquire pairs with the release of the holder that made it 0.
    word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Takes a hand-off at once, for a caller that cannot wait and has polled for a window: as a
/// starving waiter that is counted, is served and is counted no more, in one step. So the waiter
/// that the hand-off was made to stays counted, and the next release serves it.
#[cold]
pub fn try_join_hand_off(word: &AtomicU32, side: &AtomicU32) -> bool {
    let is_free = |seen| seen & HANDED_OFF != 0 && (seen & PASSED_OVER == 0 || fork::is_child());
    let taken = |seen| is_free(seen).then_some(seen & !HANDED_OFF);
    // Acquire pairs with the release in `hand_off` (Invariant 1).
    if side.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken).is_err() {
        return false;
    }
    // The release may have taken the mark away before it saw who is starving.
    let _ = word.compare_exchange(SLEEPERS, SLEEPERS | MARKED, Ordering::Relaxed, Ordering::Relaxed);
    true
}

/// What is left of `seen`, a value of `side`, without one starving waiter. It may be counted no
/// more, in the child of a fork.
const fn without_one(seen: u32, is_passed_over: bool) -> u32 {
    let one = if seen & STARVING == 0 { 0 } else { STARVING_ONE };
    seen - one - if is_passed_over && seen & PASSED_OVER != 0 { PASSED_OVER_ONE } else { 0 }
}

/// Takes the hand-off that `seen`, a value of `side`, contains, and counts this waiter down; if it
/// `forgets`, also all that were passed over. Returns what is left in `side`.
fn take_hand_off(side: &AtomicU32, seen: u32, is_passed_over: bool, forgets: bool) -> Option<u32> {
    let left = without_one(seen & !HANDED_OFF, is_passed_over);
    let left = if forgets { left & !PASSED_OVER } else { left };
    // Acquire pairs with the release in `hand_off` (Invariant 1).
    let taken = side.compare_exchange(seen, left, Ordering::Acquire, Ordering::Relaxed).is_ok();
    taken.then_some(left)
}

/// Releases the lock if no other thread has to be told.
#[inline(always)]
pub fn try_release(word: &AtomicU32) -> bool {
    word.compare_exchange(HELD, 0, Ordering::Release, Ordering::Relaxed).is_ok()
}

/// Waits for the lock: [`spin`], then [`sleep`].
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
    match spin(word, side, thread, wait.trusting) {
        Ok(()) => Ok(Acquired::default()),
        Err(side_seen) => sleep(word, side, thread, wait, side_seen),
    }
}

/// The first half of a wait: spins while that pays. It needs no window, so that the caller looks
/// one up only before a sleep. `trusting`: as in [`Wait`].
///
/// # Errors
/// The lock was not acquired. The value of `side` from before the spin is for [`window_in_epoch`]
/// and [`sleep`]: the window's bits never change.
#[cold]
pub fn spin(word: &AtomicU32, side: &AtomicU32, thread: &Thread, trusting: bool) -> Result<(), u32> {
    thread.met_contention();
    let now_ticks = clock::ticks();
    refresh_if_old_at(now_ticks);
    let to = if thread.is_over(now_ticks) { YIELDING } else { HELD };
    // Relaxed: hints, and bits that never change.
    let side_seen = side.load(Ordering::Relaxed);
    // Such a lock is held nearly all the time, and moving it to another CPU is what costs most.
    let acquired = if is_busy(side_seen) || is_polled(side_seen) {
        look(word, to)
    } else {
        spin_if_it_pays(word, thread, to, if trusting { SPIN_OWN_NS.get() } else { SPIN_NS }, now_ticks)
    };
    if acquired { Ok(()) } else { Err(side_seen) }
}

/// [`spin`] for a lock of the library's own, whose waiter has no deadline, where a line pays
/// (`line::pays`).
/// `window_ns`: the waiter's window, by a value of `side`.
///
/// # Errors
/// As [`spin`]'s.
#[cold]
pub fn spin_in_line(
    word: &AtomicU32,
    side: &AtomicU32,
    thread: &Thread,
    window_ns: impl Fn(u32) -> u64,
) -> Result<(), u32> {
    thread.met_contention();
    let began_ticks = ticks();
    if !spins(thread, began_ticks >> 8) {
        return spin(word, side, thread, true);
    }
    refresh_if_old_at(began_ticks);
    let to = if thread.is_over(began_ticks) { YIELDING } else { HELD };
    // Not before the wait: it would take the cache line of the word away from the holder. Relaxed:
    // hints, and bits that never change.
    let seen = || side.load(Ordering::Relaxed);
    let most_ticks = OnceCell::new();
    let turn = Turn::take(word);
    let came = turn.wait(|waited_ticks| {
        let half_ns = || window_ns(seen()).min(WINDOW_NS) / 2;
        waited_ticks > ns_to_ticks(LINE_NS_MIN.get())
            && waited_ticks > *most_ticks.get_or_init(|| ns_to_ticks(half_ns()))
    });
    let is_crowded = turn.is_crowded(began_ticks);
    let is_alone = || came == Came::Passed || came == Came::First && !is_crowded && turn.is_last();
    let (acquired, now_ticks) = match came {
        Came::Late => (false, ticks()),
        Came::Told => line::insist(word, to, SPIN_OWN_NS.get()),
        Came::First | Came::Passed => match spin_while(is_alone, word, thread, to, SPIN_OWN_NS.get()) {
            (None, _) => line::insist(word, to, SPIN_OWN_NS.get()),
            (Some(acquired), now_ticks) => (acquired, now_ticks),
        },
    };
    if matches!(came, Came::First | Came::Told) {
        turn.tell_next();
        if came == Came::Told || !turn.is_last() {
            turn.note_crowd(now_ticks);
        }
    }
    let waited_ticks = now_ticks.wrapping_sub(began_ticks);
    thread.waited(waited_ticks, now_ticks);
    spun(thread, acquired, waited_ticks, SPIN_OWN_NS.get());
    if acquired { Ok(()) } else { Err(seen()) }
}

/// The second half of a wait: sleeps until the lock was acquired. `side_seen`: what [`spin`]
/// returned.
///
/// # Errors
/// The deadline is over.
#[cold]
pub fn sleep(
    word: &AtomicU32,
    side: &AtomicU32,
    thread: &Thread,
    wait: &Wait,
    side_seen: u32,
) -> Result<Acquired, TimedOut> {
    let window_ns = wait.window_ns.unwrap_or_else(|| window_ns(side_seen));
    let window_end_ns = clock::now_ns().saturating_add(window_ns);
    // A waiter that gives up before its window is over needs no turn.
    let in_time = wait.deadline.is_none_or(|deadline| deadline.remaining_ns() > window_ns);
    let turns = wait.turns.filter(|_| window_ns > 0 && in_time);
    let mut waiter = Waiter {
        word,
        side,
        thread,
        wait,
        window_end_ns: turns.map_or(window_end_ns, |turns| turns::book(turns, window_end_ns)),
        patience_ns: 0,
        is_passed_over: false,
        got: Acquired::default(),
    };
    let mut acquired = if window_ns > 0 { waiter.sleep_on_word(side_seen) } else { Ok(false) };
    while acquired == Ok(false) && !waiter.join() {
        acquired = waiter.sleep_until_recheck();
    }
    let result = match acquired {
        Ok(false) => waiter.sleep_on_side(),
        result => result.map(drop),
    };
    if let Some(turns) = turns
        && !waiter.got.starving
    {
        turns::give_back(turns);
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

/// Releases the lock to a waiter rather than to a running thread: to a starving waiter if there is
/// one, otherwise to the first sleeper. Only threads that take the lock before that sleeper runs
/// may overtake it.
#[cold]
pub fn release_fair(word: &AtomicU32, side: &AtomicU32) {
    // Relaxed: a hint.
    side.fetch_or(FAIR, Ordering::Relaxed);
    if release_and_wake(word, side, true) {
        platform::thread::yield_now();
    }
}

/// Releases the lock, and returns whether it woke a thread. `surely`: it wakes one even if a waiter
/// polls.
fn release_and_wake(word: &AtomicU32, side: &AtomicU32, surely: bool) -> bool {
    loop {
        // Relaxed: what is decided by it is checked by the steps below.
        let seen = word.load(Ordering::Relaxed);
        if seen & MARKED != 0 {
            if hand_off(side) {
                return true;
            }
            // No waiter is starving. The fence is that of Invariant 4.
            let unmarked = seen & !MARKED;
            let _ = word.compare_exchange(seen, unmarked, Ordering::Relaxed, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if hand_off(side) {
                return true;
            }
            continue;
        }
        // Invariant 5, and before the step, because of Invariant 2.
        let wakes = seen == SLEEPERS && (surely || !is_polled(side.load(Ordering::Relaxed)));
        if word.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed).is_ok() {
            return wakes && futex::wake(word, 1) > 0;
        }
    }
}

/// Hands the lock off to the starving waiters, if there are any.
fn hand_off(side: &AtomicU32) -> bool {
    let if_starving = |seen| (seen & STARVING != 0).then_some(seen | HANDED_OFF);
    // Release: this is the step that gives the lock away (Invariant 1). Relaxed: counts are hints,
    // and Invariant 4 has a fence before the look that matters.
    let handed_off = side.fetch_update(Ordering::Release, Ordering::Relaxed, if_starving);
    if let Ok(before) = handed_off {
        let set = if before & PASSED_OVER == 0 { futex::ANY_SET } else { PASSED_OVER_SET };
        futex::wake_set(side, 1, set);
    }
    handed_off.is_ok()
}

/// A thread that has stopped spinning.
struct Waiter<'a> {
    word: &'a AtomicU32,
    side: &'a AtomicU32,
    thread: &'a Thread,
    wait: &'a Wait<'a>,
    /// When its window is over; [`UNBOUNDED_NS`]: never.
    window_end_ns: u64,
    /// How long the last sleep was meant to be.
    patience_ns: u64,
    /// It is counted as passed over.
    is_passed_over: bool,
    got: Acquired,
}

impl Waiter<'_> {
    /// Sleeps until the lock was acquired (true) or the window is over (false). `side_before`: a
    /// value of `side` from before the sleep.
    fn sleep_on_word(&mut self, mut side_before: u32) -> Result<bool, TimedOut> {
        let mut unmoved = 0;
        let bounded = self.window_end_ns != UNBOUNDED_NS;
        if is_busy(side_before) && begin_polling(self.side) {
            return self.poll();
        }
        loop {
            let Some(seen) = self.take_or_mark(SLEEPERS) else { return Ok(true) };
            let until = bounded.then_some(Deadline { clock: Clock::Monotonic, ns: self.window_end_ns });
            let outcome = self.sleep(self.word, seen, until);
            // Relaxed: a hint; and compared with what was seen before the sleep.
            let side_now = self.side.load(Ordering::Relaxed);
            match outcome {
                Outcome::TimedOut => self.check_deadline()?,
                Outcome::Woken => {
                    self.got.sleeps += 1;
                    if self.is_next(side_now) {
                        return Ok(self.take_or_mark(SLEEPERS).is_none());
                    }
                    if is_busy(side_now) && begin_polling(self.side) {
                        return self.poll();
                    }
                    if spin_after_sleep(self.word, self.thread, SLEEPERS) {
                        found_free(self.side);
                        return Ok(true);
                    }
                    if is_busy(count_look(self.side, true)) && begin_polling(self.side) {
                        return self.poll();
                    }
                }
                Outcome::Changed | Outcome::Interrupted => {}
            }
            if bounded && clock::now_ns() >= self.window_end_ns {
                let same = (side_now ^ side_before) & (STARVING | HANDED_OFF) == 0;
                // See *Healing*.
                if !(side_before & HANDED_OFF != 0 && same && fork::is_child()) {
                    return Ok(false);
                }
                unmoved += 1;
                if unmoved > UNMOVED {
                    return Ok(self.accept(side_now));
                }
                self.window_end_ns = clock::now_ns().saturating_add(RECHECK_NS_MIN);
            }
            side_before = side_now;
        }
    }

    /// Whether a fair release has made this waiter starving, by `side` as seen after its sleep.
    fn is_next(&self, side_seen: u32) -> bool {
        // Relaxed: a hint.
        side_seen & FAIR != 0 && self.side.fetch_and(!FAIR, Ordering::Relaxed) & FAIR != 0
    }

    /// Looks now and then until the lock was acquired (true) or the window is over (false).
    fn poll(&mut self) -> Result<bool, TimedOut> {
        let nobody = AtomicU32::new(0);
        let mut quiet_ns = QUIET_NS_MIN;
        loop {
            if is_idle(self.word) && look(self.word, SLEEPERS) {
                found_free(self.side);
                end_polling(self.side);
                return Ok(true);
            }
            count_look(self.side, true);
            let timed_out = self.check_deadline();
            let is_next = self.is_next(self.side.load(Ordering::Relaxed));
            let now_ns = clock::now_ns();
            if timed_out.is_err() || is_next || now_ns >= self.window_end_ns {
                end_polling(self.side);
                // Invariant 5.
                fence(Ordering::SeqCst);
                let acquired = self.take_or_mark(SLEEPERS | MARKED).is_none();
                return if acquired { Ok(true) } else { timed_out.map(|()| false) };
            }
            let until_ns = now_ns.saturating_add(quiet_ns).min(self.window_end_ns);
            self.sleep(&nobody, 0, Some(Deadline { clock: Clock::Monotonic, ns: until_ns }));
            self.got.sleeps += 1;
            quiet_ns = (quiet_ns * 2).min(QUIET_NS_MAX);
        }
    }

    /// Sleeps on `word` as if the window were longer: as many waiters are starving as `side` can
    /// count.
    fn sleep_until_recheck(&mut self) -> Result<bool, TimedOut> {
        self.window_end_ns = clock::now_ns().saturating_add(RECHECK_NS_MIN);
        self.sleep_on_word(self.side.load(Ordering::Relaxed))
    }

    /// Sleeps as a starving waiter, which is counted, until the lock was acquired.
    fn sleep_on_side(&mut self) -> Result<(), TimedOut> {
        self.got.starving = true;
        let (mut spun, mut was_woken) = (false, false);
        loop {
            let seen = self.side.load(Ordering::Relaxed);
            if seen & HANDED_OFF != 0 && self.may_take(seen) {
                if self.accept(seen) {
                    return Ok(());
                }
                continue;
            }
            if was_woken && self.note_passed_over() {
                // It runs, and the next hand-off is its own, or that of few others.
                (was_woken, spun) = (false, false);
                continue;
            }
            if seen & STARVING == 0 {
                // Counted no more: a hand-off was taken in this thread's stead. There is room.
                let _ = self.join();
                continue;
            }
            // Invariant 4: counted, fence, mark. It may be free, if the release did not see the
            // count.
            fence(Ordering::SeqCst);
            if self.take_or_mark(SLEEPERS | MARKED).is_none() {
                self.leave();
                return Ok(());
            }
            if !spun && (seen & STARVING <= FEW_STARVING || self.is_passed_over) {
                // What was seen is old by then.
                spun = true;
                spin_until_handed_off(self.side);
                continue;
            }
            let looks = !self.wait.trusting || was_woken || fork::is_child();
            let until = looks.then(|| self.next_recheck(seen));
            let set = if self.is_passed_over { PASSED_OVER_SET } else { COUNTED_SET };
            match self.sleep_in(self.side, seen, set, until) {
                Outcome::TimedOut => {
                    if let Err(over) = self.check_deadline() {
                        // A hand-off may have come for this thread, and its wake-up been meant for
                        // it.
                        return if self.leave_or_accept() { Ok(()) } else { Err(over) };
                    }
                    // See *Healing*.
                    let is_unmoved = !self.wait.trusting && seen & HANDED_OFF != 0;
                    if is_unmoved && self.accept_as(seen, true) {
                        return Ok(());
                    }
                }
                Outcome::Woken => {
                    self.got.sleeps += 1;
                    was_woken = !self.is_passed_over;
                }
                Outcome::Changed | Outcome::Interrupted => {}
            }
        }
    }

    /// Whether a hand-off in `seen`, a value of `side`, may be this waiter's.
    fn may_take(&self, seen: u32) -> bool {
        seen & PASSED_OVER == 0 || self.is_passed_over || fork::is_child()
    }

    /// Counts this waiter, which was woken for a hand-off and found it taken, as passed over, if
    /// there is room for it.
    fn note_passed_over(&mut self) -> bool {
        let one_more = |seen| (seen & PASSED_OVER != PASSED_OVER).then(|| seen + PASSED_OVER_ONE);
        self.is_passed_over = self.side.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok();
        self.is_passed_over
    }

    /// Takes the lock if it is free; otherwise makes sure that `word` has all of `bits`, and
    /// returns it.
    ///
    /// Comparisons with a lock that is taken and released as fast as its cache line travels may all
    /// fail. So after some the word is exchanged, with a mark that costs one release a look.
    fn take_or_mark(&self, bits: u32) -> Option<u32> {
        let mut seen = self.word.load(Ordering::Relaxed);
        for _ in 0..=platform::spin_bound(COMPARISONS) {
            let wanted = if seen == 0 { SLEEPERS } else { seen & MARKED | bits };
            if seen == wanted {
                return Some(seen);
            }
            // Acquire for the case that it was free: pairs with the release. A thread that has
            // slept leaves 2 behind (Invariant 3).
            match self.word.compare_exchange_weak(seen, wanted, Ordering::Acquire, Ordering::Relaxed) {
                Ok(0) => return None,
                Ok(_) => return Some(wanted),
                Err(now) => seen = now,
            }
        }
        // Acquire: as above.
        let before = self.word.swap(SLEEPERS | MARKED, Ordering::Acquire);
        (before != 0).then_some(SLEEPERS | MARKED)
    }

    /// Takes the hand-off that `seen`, a value of `side`, contains.
    fn accept(&mut self, seen: u32) -> bool {
        self.accept_as(seen, fork::is_child())
    }

    /// The same; if it `forgets`, no waiter counts as passed over any more.
    fn accept_as(&mut self, seen: u32, forgets: bool) -> bool {
        let taken = take_hand_off(self.side, seen, self.is_passed_over, forgets);
        let Some(left) = taken else { return false };
        self.got.handed_off = true;
        if left & STARVING != 0 {
            // Others are starving, and the release may have taken their mark away before it saw
            // them.
            self.take_or_mark(SLEEPERS | MARKED);
        }
        true
    }

    /// Gives up: counts this thread no more. If there is a hand-off, its wake-up may have been
    /// meant for this thread, which must take it (true).
    fn leave_or_accept(&mut self) -> bool {
        loop {
            let seen = self.side.load(Ordering::Relaxed);
            if seen & HANDED_OFF != 0 && self.may_take(seen) {
                if self.accept(seen) {
                    return true;
                }
                continue;
            }
            let left = without_one(seen, self.is_passed_over);
            if left == seen
                || self.side.compare_exchange(seen, left, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return false;
            }
        }
    }

    /// Counts this thread among the starving waiters, if there is room for it.
    fn join(&self) -> bool {
        let one_more = |seen| (seen & STARVING != STARVING).then(|| seen + STARVING_ONE);
        self.side.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// Counts this thread no more.
    fn leave(&self) {
        let one_less = |seen| Some(without_one(seen, self.is_passed_over));
        let _ = self.side.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }

    /// When a sleeper that does not trust looks again. Each one that looks sets the mark for all,
    /// so the more are starving, by this value of `side`, the later each of them looks.
    fn next_recheck(&mut self, seen: u32) -> Deadline {
        let each_ns = RECHECK_NS_MIN * u64::from((seen & STARVING) / STARVING_ONE).max(1);
        self.patience_ns = (self.patience_ns * 2).max(each_ns).min(RECHECK_NS_MAX);
        Deadline { clock: Clock::Monotonic, ns: clock::now_ns().saturating_add(self.patience_ns) }
    }

    /// Sleeps until then, or until the deadline if that comes first.
    fn sleep(&self, place: &AtomicU32, seen: u32, until: Option<Deadline>) -> Outcome {
        self.sleep_in(place, seen, futex::ANY_SET, until)
    }

    /// The same as a member of a set.
    fn sleep_in(&self, place: &AtomicU32, seen: u32, set: u32, until: Option<Deadline>) -> Outcome {
        let nearer = match (until, self.wait.deadline) {
            (Some(until), Some(deadline)) if until.remaining_ns() < deadline.remaining_ns() => Some(until),
            (until, None) => until,
            (_, deadline) => deadline,
        };
        futex::wait_set(place, seen, set, nearer)
    }

    fn check_deadline(&self) -> Result<(), TimedOut> {
        match self.wait.deadline {
            Some(deadline) if deadline.remaining_ns() == 0 => Err(TimedOut),
            _ => Ok(()),
        }
    }
}

/// Spins until there is a hand-off, or that does not seem to pay.
fn spin_until_handed_off(side: &AtomicU32) {
    if platform::spin_bound(1) == 0 {
        return;
    }
    let end_ticks = ticks().wrapping_add(ns_to_ticks(SPIN_STARVING_NS.get()));
    loop {
        // Relaxed: a thread that finds a hand-off takes it by a step that acquires.
        if side.load(Ordering::Relaxed) & HANDED_OFF != 0 || ticks().wrapping_sub(end_ticks) as i64 >= 0 {
            return;
        }
        pause();
    }
}

/// Whether a waiter polls, by this value of `side`, so that no thread has to be woken.
fn is_polled(side_seen: u32) -> bool {
    side_seen & POLLING != 0 && !fork::is_child()
}

/// Returns whether waiters look in vain, by this value of `side`, so that one of them is to poll.
fn is_busy(side_seen: u32) -> bool {
    side_seen & FUTILE >= FUTILE_POLLS
}

/// Returns whether the caller polls from now on. The lock is busy.
// Relaxed, here and in the functions below: what depends on these values is checked elsewhere.
fn begin_polling(side: &AtomicU32) -> bool {
    !fork::is_child() && side.fetch_or(POLLING, Ordering::Relaxed) & POLLING == 0
}

/// Whether the lock stays free for longer than between two holds.
fn is_idle(word: &AtomicU32) -> bool {
    (0..IDLE_LOOKS).all(|look| {
        if look > 0 {
            pause_for(IDLE_LOOK_INTERVAL_NS);
        }
        word.load(Ordering::Relaxed) == 0
    })
}

/// A waiter found the lock free after it had slept.
fn found_free(side: &AtomicU32) {
    count_look(side, false);
}

/// The caller does not poll any more.
fn end_polling(side: &AtomicU32) {
    side.fetch_and(!POLLING, Ordering::Relaxed);
}

/// Counts a look after a sleep, and returns the count where it stands in the word. Lost if another
/// thread was faster: a hint.
fn count_look(side: &AtomicU32, in_vain: bool) -> u32 {
    let seen = side.load(Ordering::Relaxed);
    let now = match (seen & FUTILE, in_vain) {
        (FUTILE, true) | (0, false) => return seen & FUTILE,
        (count, true) => count + FUTILE_ONE,
        (count, false) => count - FUTILE_ONE,
    };
    let _ = side.compare_exchange(seen, seen & !FUTILE | now, Ordering::Relaxed, Ordering::Relaxed);
    now
}

/// Returns a first value for a lock's second word with which the next sleeper that is woken in vain
/// polls: for tests.
pub const fn about_to_poll() -> u32 {
    FUTILE_POLLS - FUTILE_ONE
}

#[cfg(test)]
mod tests;
