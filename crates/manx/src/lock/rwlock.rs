//! The default readers-writer lock, eight bytes: readers share, and those who run may overtake those who sleep, for a
//! window.
//!
//! A lock that prefers readers starves writers, one that prefers writers starves readers, and one that
//! serves in the order of arrival stands still whenever whose turn it is does not run. Here, as in [`super::bounded`],
//! whoever runs and finds the lock in a fitting state takes it. A waiter whose window is over is *overdue* and closes a *gate*: an
//! overdue writer keeps new readers and writers out, an overdue reader keeps writers out. If both gates are closed,
//! overdue readers and overdue writers take turns (the idea of phase fairness: Brandenburg and Anderson,
//! "Spin-based reader-writer synchronization for multiprocessor real-time systems", 2010).
//!
//! # State
//! | `word` | meaning |
//! | --- | --- |
//! | [`WRITER`] | a writer holds the lock |
//! | [`READERS_SLEEP`], [`WRITERS_SLEEP`] | perhaps some sleep that are not overdue |
//! | [`READER_GATE`], [`WRITER_GATE`] | there are overdue readers, overdue writers |
//! | [`READERS_TURN`] | with both gates closed: overdue readers go first. Never without `READER_GATE` |
//! | [`READER_ONE`] × n | n readers hold the lock |
//!
//! | who may enter, if none of these is set | |
//! | --- | --- |
//! | a reader | `WRITER`, `WRITER_GATE` |
//! | a writer | `WRITER`, `READER_ONE` × n, both gates |
//! | an overdue reader | `WRITER`, and `WRITER_GATE` unless it is the readers' turn |
//! | an overdue writer | `WRITER`, `READER_ONE` × n, `READERS_TURN` |
//!
//! | `side` | meaning |
//! | --- | --- |
//! | 12 bits | overdue readers |
//! | 12 bits | overdue writers |
//! | 8 bits | the number of wake-ups, modulo 2⁸. All waiters sleep on `side`, in four futex sets |
//!
//! # Invariants
//! 1. `word` has `WRITER` or readers, never both; each is added by one step from a value that lets it enter (the table), and
//!    taken away by its holder.
//! 2. A waiter sleeps on a value of `side` that it read before it looked at `word`, saw that it may not enter, and saw
//!    there that its flag (asleep) or its gate (overdue) is set. Whoever makes `word` such that somebody may enter then looks for
//!    flags and gates ([`RawRwLock::pass_on`]), changes `side`, and wakes. So either the waiter finds `side` changed, or is in
//!    the kernel's queue and is woken.
//! 3. Who clears `READERS_SLEEP` wakes all readers. Who clears `WRITERS_SLEEP` wakes one writer, and if that one enters or
//!    gives up it sets `WRITERS_SLEEP` again, because others may still sleep. If nobody was there to be woken, the next
//!    kind in question is woken.
//! 4. A gate is set while somebody of its kind is counted in `side`, but for moments that whoever changed the count mends before
//!    it goes on ([`RawRwLock::settle`]), and then it wakes those who may enter.
//! 5. The readers' turn begins when a writer releases the lock and the readers' gate is closed, and ends when no overdue reader is
//!    left. During it nobody joins the overdue readers, so it ends.
//!
//! # The bound
//! An overdue writer keeps everybody out but other overdue ones. Those who hold the lock leave it, and then it is
//! the turn of overdue writers, one at a time in the order in which they fell asleep, and between two of them of all overdue readers together. So
//! a waiter holds the lock after at most: window + time in the run queue + (n + 1) × (the longest hold of a writer
//! + the longest of a reader), with n writers overdue before it; a reader with n = 1. Up to 4,095 of each kind can be overdue;
//! more wait for another window first.
//!
//! # Reading twice
//! A thread that reads and wants to read once more waits for itself if a writer became overdue in between. The
//! deadlock mode of [`super::observe`] names such threads.
//!
//! # Memory orderings
//! Entering is `Acquire`, leaving is `Release`, both on `word`, and every step on `word` is a read-modify-write: so a
//! writer synchronises with all readers before it. The flags are relaxed. `side` is read with acquire and changed with
//! release by a wake-up: a waiter that sees the change saw `word` after it. Counts and gates are in different words, and Dekker's
//! fences stand between the two on both sides.

use super::bounded::{Acquired, TimedOut, WINDOW_NS, Wait};
use crate::wait::short_of_cpus;
use platform::atomic::{AtomicU32, Ordering, fence};
use platform::futex::{self, Clock, Deadline};
use platform::{clock, cpu, thread};

platform::os_only! {
    mod guarded;

    pub use guarded::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
}

/// `word`: a writer holds the lock.
const WRITER: u32 = 1;
/// `word`: readers may be asleep.
const READERS_SLEEP: u32 = 1 << 1;
/// `word`: writers may be asleep.
const WRITERS_SLEEP: u32 = 1 << 2;
/// `word`: there are overdue readers.
const READER_GATE: u32 = 1 << 3;
/// `word`: there are overdue writers.
const WRITER_GATE: u32 = 1 << 4;
/// `word`: overdue readers go before overdue writers.
const READERS_TURN: u32 = 1 << 5;
/// `word`: one reader.
const READER_ONE: u32 = 1 << 6;
/// `word`: all readers.
const READERS: u32 = !(READER_ONE - 1);
/// `word`: from here on there are too many readers.
const READERS_LIMIT: u32 = 1 << 31;

/// `side`: one more wake-up.
const WAKE_ONE: u32 = 1 << 24;

/// The futex sets.
mod set {
    pub const READERS: u32 = 1;
    pub const WRITERS: u32 = 1 << 1;
    pub const OVERDUE_READERS: u32 = 1 << 2;
    pub const OVERDUE_WRITERS: u32 = 1 << 3;
}

/// How often a waiter looks before it sleeps, with twice as many pauses between two looks each time.
const LOOKS: u32 = 9;
/// The most pauses between two looks, as a power of two.
const PAUSES_LOG_MAX: u32 = 6;
/// How long a waiter sleeps at least that may not be overdue yet.
const PATIENCE_NS_MIN: u64 = 50_000;

/// What distinguishes readers and writers that wait.
#[derive(Debug)]
struct Kind {
    /// `word`: what must not be set for one to enter.
    barred_by: u32,
    /// `word`: its flag, its gate, and what goes with the gate.
    sleeps: u32,
    gate: u32,
    opens: u32,
    /// The sets of those asleep and those overdue.
    asleep: u32,
    overdue: u32,
    /// `side`: one overdue, and the bits in which they are counted.
    overdue_one: u32,
    overdue_all: u32,
    /// What entering adds to `word`, and for one that has slept sets in it.
    enters: u32,
    leaves_behind: u32,
}

const READER: Kind = Kind {
    barred_by: WRITER | WRITER_GATE,
    sleeps: READERS_SLEEP,
    gate: READER_GATE,
    opens: READER_GATE | READERS_TURN,
    asleep: set::READERS,
    overdue: set::OVERDUE_READERS,
    overdue_one: 1,
    overdue_all: 0xfff,
    enters: READER_ONE,
    leaves_behind: 0,
};

const WRITER_KIND: Kind = Kind {
    barred_by: WRITER | READERS | READER_GATE | WRITER_GATE,
    sleeps: WRITERS_SLEEP,
    gate: WRITER_GATE,
    opens: WRITER_GATE,
    asleep: set::WRITERS,
    overdue: set::OVERDUE_WRITERS,
    overdue_one: 1 << 12,
    overdue_all: 0xfff << 12,
    enters: WRITER,
    leaves_behind: WRITERS_SLEEP,
};

impl Kind {
    /// The second table of the module's text.
    const fn may_enter(&self, word: u32, overdue: bool) -> bool {
        let barred_by = match (overdue, self.enters == WRITER) {
            (false, _) => self.barred_by,
            (true, true) => WRITER | READERS | READERS_TURN,
            (true, false) if word & READERS_TURN != 0 => WRITER,
            (true, false) => WRITER | WRITER_GATE,
        };
        word & barred_by == 0
    }
}

/// A readers-writer lock without data. See [the module](self).
///
/// ```
/// use manx::lock::RawRwLock;
///
/// let lock = RawRwLock::new();
/// lock.read();
/// assert!(lock.try_read() && !lock.try_write());
/// // SAFETY: this thread reads, twice.
/// unsafe {
///     lock.release_read();
///     lock.release_read();
/// }
/// assert!(lock.try_write());
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RawRwLock {
    word: AtomicU32,
    side: AtomicU32,
}

impl RawRwLock {
    platform::const_fn! {
        /// A lock that nobody holds: all zero.
        pub const fn new() -> RawRwLock {
            RawRwLock { word: AtomicU32::new(0), side: AtomicU32::new(0) }
        }
    }

    /// Enters as a reader if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> bool {
        self.try_enter(&READER)
    }

    /// Enters as a writer if that needs no waiting.
    #[inline]
    pub fn try_write(&self) -> bool {
        self.try_enter(&WRITER_KIND)
    }

    /// Waits until it is a reader.
    #[inline]
    pub fn read(&self) {
        if !self.try_read() {
            let _ = self.read_slow(&Wait::default());
        }
    }

    /// Waits until it is the writer.
    #[inline]
    pub fn write(&self) {
        if !self.try_write() {
            let _ = self.write_slow(&Wait::default());
        }
    }

    /// Waits as told until it is a reader, and tells how it went.
    ///
    /// # Errors
    /// The deadline is over.
    ///
    /// # Panics
    /// If there are 2²⁵ readers, as when guards are forgotten in a loop.
    #[cold]
    pub fn read_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(self, &READER, wait).enter()
    }

    /// Waits as told until it is the writer, and tells how it went.
    ///
    /// # Errors
    /// The deadline is over.
    #[cold]
    pub fn write_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(self, &WRITER_KIND, wait).enter()
    }

    /// Ends a reader's stay.
    ///
    /// # Safety
    /// The calling context is a reader.
    #[inline]
    pub unsafe fn release_read(&self) {
        // Release pairs with the acquire of the next writer.
        let left = self.word.fetch_sub(READER_ONE, Ordering::Release) - READER_ONE;
        if left & READERS == 0 && left != 0 {
            self.pass_on();
        }
    }

    /// Ends the writer's stay.
    ///
    /// # Safety
    /// The calling context is the writer.
    #[inline]
    pub unsafe fn release_write(&self) {
        // Release pairs with the acquire of whoever comes next.
        if self.word.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_write_slow(0);
        }
    }

    /// Ends the calling thread's stay as the writer, and it is a reader: nobody writes in between.
    ///
    /// # Safety
    /// The calling context is the writer.
    #[inline]
    pub unsafe fn downgrade(&self) {
        if self.word.compare_exchange(WRITER, READER_ONE, Ordering::Release, Ordering::Relaxed).is_err() {
            self.release_write_slow(READER_ONE);
        }
    }

    /// Ends a reader's stay, and lets those run who wait.
    ///
    /// # Safety
    /// The calling context is a reader.
    pub unsafe fn release_read_fair(&self) {
        // Release pairs with the acquire of the next writer.
        let left = self.word.fetch_sub(READER_ONE, Ordering::Release) - READER_ONE;
        if left & READERS == 0 && left != 0 && self.pass_on() {
            thread::yield_now();
        }
    }

    /// Ends the writer's stay, and lets those run who wait.
    ///
    /// # Safety
    /// The calling context is the writer.
    pub unsafe fn release_write_fair(&self) {
        // Release pairs with the acquire of whoever comes next.
        if self.word.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err()
            && self.release_write_slow(0)
        {
            thread::yield_now();
        }
    }

    /// Whether somebody reads or writes just now.
    pub fn is_held(&self) -> bool {
        // Relaxed: out of date when it is returned, whatever the ordering.
        self.word.load(Ordering::Relaxed) & (WRITER | READERS) != 0
    }

    /// Whether somebody writes just now.
    pub fn is_written(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITER != 0
    }

    #[inline(always)]
    fn try_enter(&self, kind: &Kind) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & kind.barred_by == 0 && seen < READERS_LIMIT {
            // Acquire pairs with the release of those who held it (Invariant 1).
            let entered = seen + kind.enters;
            match self.word.compare_exchange_weak(seen, entered, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Makes the writer nobody, or `instead`; returns whether somebody was woken.
    #[cold]
    fn release_write_slow(&self, instead: u32) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            // Invariant 5: it is the readers' turn if some are overdue.
            let turn = if seen & READER_GATE != 0 { READERS_TURN } else { 0 };
            let left = (seen & !WRITER) + instead | turn;
            // Release pairs with the acquire of whoever comes next.
            match self.word.compare_exchange_weak(seen, left, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return self.pass_on(),
                Err(now) => seen = now,
            }
        }
    }

    /// Wakes those who may enter, if any sleep (Invariants 2 and 3). Returns whether somebody was woken.
    #[cold]
    fn pass_on(&self) -> bool {
        loop {
            // Relaxed: whoever changes it after this look, such that somebody may enter, looks for itself.
            let seen = self.word.load(Ordering::Relaxed);
            let Some(next) = Next::of(seen) else { return false };
            let cleared = seen & !next.clears;
            if cleared != seen
                && self.word.compare_exchange(seen, cleared, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                continue;
            }
            // Release pairs with the acquire of those about to sleep.
            self.side.fetch_add(WAKE_ONE, Ordering::Release);
            let woken = futex::wake_set(&self.side, next.count, next.sets);
            if woken > 0 || next.counted {
                return woken > 0;
            }
        }
    }

    /// Makes the gate of `kind` agree with the count of those overdue, which the caller has changed (Invariant 4).
    fn settle(&self, kind: &Kind) {
        loop {
            // The count, then a fence, then the gate; a joining waiter has the same. Relaxed but for that.
            fence(Ordering::SeqCst);
            let any = self.side.load(Ordering::Relaxed) & kind.overdue_all != 0;
            if any {
                self.word.fetch_or(kind.gate, Ordering::Relaxed);
            } else {
                self.word.fetch_and(!kind.opens, Ordering::Relaxed);
            }
            fence(Ordering::SeqCst);
            if any == (self.side.load(Ordering::Relaxed) & kind.overdue_all != 0) {
                break;
            }
        }
        self.pass_on();
    }
}

impl Default for RawRwLock {
    fn default() -> RawRwLock {
        RawRwLock::new()
    }
}

platform::os_only! {
    const _: () = assert!(size_of::<RawRwLock>() == 8 && align_of::<RawRwLock>() == 4);
}

/// Whom to wake in a state of the lock.
struct Next {
    sets: u32,
    count: u32,
    /// Flags that stand for those who are woken.
    clears: u32,
    /// They are counted as overdue: if none of them sleeps, they are awake and see for themselves.
    counted: bool,
}

impl Next {
    const fn of(word: u32) -> Option<Next> {
        if word & WRITER != 0 {
            return None;
        }
        let readers_may = word & WRITER_GATE == 0;
        let (ordinary, clears) =
            if readers_may && word & READERS_SLEEP != 0 { (set::READERS, READERS_SLEEP) } else { (0, 0) };
        let overdue_may = word & READER_GATE != 0 && (readers_may || word & READERS_TURN != 0);
        if overdue_may {
            let sets = ordinary | set::OVERDUE_READERS;
            return Some(Next { sets, count: u32::MAX, clears, counted: true });
        }
        if ordinary != 0 {
            return Some(Next { sets: ordinary, count: u32::MAX, clears, counted: false });
        }
        if word & READERS != 0 {
            return None;
        }
        if word & WRITER_GATE != 0 {
            return Some(Next { sets: set::OVERDUE_WRITERS, count: 1, clears: 0, counted: true });
        }
        if word & WRITERS_SLEEP != 0 {
            return Some(Next { sets: set::WRITERS, count: 1, clears: WRITERS_SLEEP, counted: false });
        }
        None
    }
}

/// A thread that could not enter at once.
struct Waiter<'a> {
    lock: &'a RawRwLock,
    kind: &'static Kind,
    deadline: Option<Deadline>,
    window_ns: u64,
    window_end_ns: u64,
    got: Acquired,
}

impl<'a> Waiter<'a> {
    fn new(lock: &'a RawRwLock, kind: &'static Kind, wait: &Wait) -> Waiter<'a> {
        let window_ns = wait.window_ns.unwrap_or(WINDOW_NS);
        let window_end_ns = clock::now_ns().saturating_add(window_ns);
        Waiter { lock, kind, deadline: wait.deadline, window_ns, window_end_ns, got: Acquired::default() }
    }

    fn enter(mut self) -> Result<Acquired, TimedOut> {
        self.spin();
        loop {
            // Acquire, and before the look at `word`: Invariant 2.
            let side = self.lock.side.load(Ordering::Acquire);
            let seen = self.lock.word.load(Ordering::Relaxed);
            if self.kind.may_enter(seen, self.got.overdue) {
                if self.enter_from(seen) {
                    return Ok(self.got);
                }
                continue;
            }
            if self.deadline.is_some_and(|deadline| deadline.left_ns() == 0) {
                self.give_up();
                return Err(TimedOut);
            }
            if self.got.overdue {
                // Somebody may have opened the gate before this waiter was counted (Invariant 4).
                if seen & self.kind.gate == 0 {
                    self.lock.word.fetch_or(self.kind.gate, Ordering::Relaxed);
                } else {
                    self.sleep(side, self.kind.overdue, None);
                }
                continue;
            }
            if self.window_is_over() {
                if self.join(seen) {
                    self.spin();
                } else {
                    self.window_end_ns = clock::now_ns() + self.window_ns.max(PATIENCE_NS_MIN);
                }
                continue;
            }
            let flag = self.kind.sleeps;
            let flagged = seen & flag != 0
                || self
                    .lock
                    .word
                    .compare_exchange(seen, seen | flag, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if flagged {
                self.sleep(side, self.kind.asleep, self.window_end());
            }
        }
    }

    /// Looks a few times more before it costs a system call; not while the process is short of CPUs.
    fn spin(&self) {
        for look in 0..platform::spin_bound(LOOKS) {
            let seen = self.lock.word.load(Ordering::Relaxed);
            if self.kind.may_enter(seen, self.got.overdue) || short_of_cpus() {
                return;
            }
            for _ in 0..1 << look.min(PAUSES_LOG_MAX) {
                cpu::pause();
            }
        }
    }

    /// Enters from a state that lets it.
    fn enter_from(&self, seen: u32) -> bool {
        assert!(
            seen < READERS_LIMIT,
            "a readers-writer lock has 2^25 readers: are guards forgotten in a loop?"
        );
        // Invariant 3: a writer that has slept was perhaps woken for others too.
        let behind = if self.got.sleeps > 0 { self.kind.leaves_behind } else { 0 };
        let entered = seen + self.kind.enters | behind;
        // Acquire pairs with the release of those who held it (Invariant 1).
        let step = self.lock.word.compare_exchange(seen, entered, Ordering::Acquire, Ordering::Relaxed);
        if step.is_ok() && self.got.overdue {
            self.uncount();
        }
        step.is_ok()
    }

    /// Is counted as overdue from now on, and closes its gate; false if it may not be yet.
    fn join(&mut self, seen: u32) -> bool {
        if seen & READERS_TURN != 0 && self.kind.gate == READER_GATE {
            // Invariant 5.
            return false;
        }
        let side = &self.lock.side;
        let one_more = |seen: u32| {
            let full = seen & self.kind.overdue_all == self.kind.overdue_all;
            (!full).then(|| seen + self.kind.overdue_one)
        };
        // Relaxed, here and below: the fence is what orders it against `settle`.
        if side.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return false;
        }
        fence(Ordering::SeqCst);
        self.lock.word.fetch_or(self.kind.gate, Ordering::Relaxed);
        self.got.overdue = true;
        true
    }

    /// Is overdue no more: it has entered, or gives up.
    fn uncount(&self) {
        // Relaxed: see `settle`.
        let before = self.lock.side.fetch_sub(self.kind.overdue_one, Ordering::Relaxed);
        if before & self.kind.overdue_all == self.kind.overdue_one {
            self.lock.settle(self.kind);
        }
    }

    /// Leaves without the lock; what it may have been woken for is somebody else's.
    fn give_up(&self) {
        if self.got.sleeps > 0 && self.kind.leaves_behind != 0 {
            // Invariant 3.
            self.lock.word.fetch_or(self.kind.leaves_behind, Ordering::Relaxed);
        }
        if self.got.overdue {
            self.uncount();
        }
        self.lock.pass_on();
    }

    fn window_is_over(&self) -> bool {
        self.window_end_ns != u64::MAX && clock::now_ns() >= self.window_end_ns
    }

    /// When to wake up to be overdue; `None` if that is never.
    fn window_end(&self) -> Option<Deadline> {
        let bounded = self.window_end_ns != u64::MAX;
        bounded.then_some(Deadline { clock: Clock::Monotonic, ns: self.window_end_ns })
    }

    /// Sleeps on this value of `side`, until the earlier one of its deadline and `end`.
    fn sleep(&mut self, side: u32, sets: u32, end: Option<Deadline>) {
        let first = match (self.deadline, end) {
            (Some(mine), Some(end)) => Some(if mine.left_ns() < end.left_ns() { mine } else { end }),
            (mine, end) => mine.or(end),
        };
        if futex::wait_set(&self.lock.side, side, sets, first) == futex::Outcome::Woken {
            self.got.sleeps += 1;
        }
    }
}
