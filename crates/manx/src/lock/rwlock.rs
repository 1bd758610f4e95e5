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
//! | `WRITER` | a writer holds the lock |
//! | `READERS_SLEEP`, `WRITERS_SLEEP` | perhaps some sleep that are not overdue |
//! | `READER_GATE`, `WRITER_GATE` | there are overdue readers, overdue writers |
//! | `READERS_TURN` | with both gates closed: overdue readers go first. Never without `READER_GATE` |
//! | `READER_ONE` × n | n readers hold the lock |
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
//!    flags and gates (`pass_on`), changes `side`, and wakes. So either the waiter finds `side` changed, or is in
//!    the kernel's queue and is woken.
//! 3. Who clears `READERS_SLEEP` wakes all readers. Who clears `WRITERS_SLEEP` wakes one writer, and if that one enters or
//!    gives up it sets `WRITERS_SLEEP` again, because others may still sleep. If nobody was there to be woken, the next
//!    kind in question is woken.
//! 4. A gate is set while somebody of its kind is counted in `side`, but for moments that whoever changed the count mends before
//!    it goes on (`settle`), and then it wakes those who may enter.
//! 5. The readers' turn begins when a writer releases the lock and the readers' gate is closed, and ends when no overdue reader is
//!    left. During it nobody joins the overdue readers, so it ends.
//!
//! # The bound
//! An overdue writer keeps everybody out but other overdue ones. Those who hold the lock leave it, and then it is
//! the turn of overdue writers, one at a time in the order in which they fell asleep, and between two of them of all
//! overdue readers together. So a waiter holds the lock after at most: its window, its time in the run queue, and
//! n + 1 times the longest hold of a writer and the longest of a reader, where n writers were overdue before it; for a
//! reader n is 1. Up to 4,095 of each kind can be overdue; more wait for another window first.
//!
//! # Reading twice
//! A thread that reads and wants to read once more waits for itself if a writer became overdue in between. The
//! deadlock mode of [`super::observe()`] names such threads.
//!
//! # Memory orderings
//! Entering is `Acquire`, leaving is `Release`, both on `word`, and every step on `word` is a read-modify-write: so a
//! writer synchronises with all readers before it. The flags are relaxed. `side` is read with acquire and changed with
//! release by a wake-up: a waiter that sees the change saw `word` after it. Counts and gates are in different words, and Dekker's
//! fences stand between the two on both sides.

mod state;
mod waiter;

use super::bounded::{Acquired, TimedOut, Wait};
use super::mutex::{gave, took};
use platform::atomic::{AtomicU32, Ordering, fence};
use platform::{futex, thread};
use state::{
    Kind, Next, READER, READER_GATE, READER_ONE, READERS, READERS_LIMIT, READERS_TURN, WAKE_ONE, WRITER,
    WRITER_KIND,
};
use waiter::Waiter;

platform::os_only! {
    mod guarded;

    pub use guarded::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    };
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
        let entered = self.try_enter(&READER, self.word.load(Ordering::Relaxed));
        if entered {
            took();
        }
        entered
    }

    /// Enters as a writer if that needs no waiting.
    #[inline]
    pub fn try_write(&self) -> bool {
        // A look first would cost a trip for the cache line more. Acquire as in `try_enter`.
        let entered = match self.word.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(seen) => self.try_enter(&WRITER_KIND, seen),
        };
        if entered {
            took();
        }
        entered
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
        Waiter::new(self, &READER, wait).enter().inspect(|_| took())
    }

    /// Waits as told until it is the writer, and tells how it went.
    ///
    /// # Errors
    /// The deadline is over.
    #[cold]
    pub fn write_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(self, &WRITER_KIND, wait).enter().inspect(|_| took())
    }

    /// Ends a reader's stay.
    ///
    /// # Safety
    /// The calling context is a reader.
    #[inline]
    pub unsafe fn release_read(&self) {
        gave();
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
        gave();
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
        gave();
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
        gave();
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

    /// Whether there are as many readers as can be counted, so that [`RawRwLock::read_slow`] would panic.
    pub fn is_full(&self) -> bool {
        // Relaxed: out of date when it is returned, whatever the ordering.
        self.word.load(Ordering::Relaxed) >= READERS_LIMIT
    }

    /// Whether somebody writes just now.
    pub fn is_written(&self) -> bool {
        self.word.load(Ordering::Relaxed) & WRITER != 0
    }

    #[inline(always)]
    fn try_enter(&self, kind: &Kind, mut seen: u32) -> bool {
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
            let left = ((seen & !WRITER) + instead) | turn;
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
