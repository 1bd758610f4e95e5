//! The default readers-writer lock, eight bytes: readers share, and running threads may overtake
//! sleeping ones, for a window.
//!
//! A lock that prefers readers starves writers, and a lock that prefers writers starves readers. A
//! lock that serves in the order of arrival stands still whenever the next thread in line does not
//! run. Here, as in [`super::bounded`], a thread that runs and finds the lock in a fitting state
//! takes it. A waiter whose window is over is *starving*: a starving writer keeps new readers and
//! writers out, a starving reader keeps writers out. If there are both, starving readers and
//! starving writers take turns (the idea of phase fairness: Brandenburg and Anderson, "Spin-based
//! reader-writer synchronization for multiprocessor real-time systems", 2010).
//!
//! # State
//! One word of 64 bits, so that one step decides which threads may enter, and which are woken.
//!
//! | bits | `state` |
//! | --- | --- |
//! | 0 to 21 | readers that hold the lock, without the upgradable one |
//! | 22 | an upgradable reader holds the lock |
//! | 23 | it waits to be the writer, and its window is over |
//! | 24 to 35 | starving readers |
//! | 36 to 47 | starving writers, upgradable readers among them |
//! | 48 | a writer holds the lock |
//! | 49, 50, 51 | perhaps some readers, writers, upgradable readers sleep that are not starving |
//! | 52, 53, 54 | perhaps some starving readers sleep, some starving writers, the upgrader |
//! | 55 | the readers' turn: starving readers go first. Never without starving readers |
//! | 56 to 63 | the lock's window, if it has one of its own ([`RawRwLock::with_window`]); constant |
//!
//! | rank | may enter if there is none of these |
//! | --- | --- |
//! | a reader | the writer, a starving upgrader, starving writers |
//! | a writer | the writer, readers, starving waiters |
//! | an upgradable reader | the writer, another one, starving writers |
//! | a starving reader | the writer, a starving upgrader, and starving writers unless it is the readers' turn |
//! | a starving writer, a starving upgradable reader | the writer, readers, the readers' turn |
//! | the upgrader | other readers |
//!
//! # Upgradable readers
//! One reader at a time may be *upgradable*: it reads beside other readers, and becomes the writer
//! without leaving, so that no thread writes in between. While it waits for the other readers to
//! leave it is the *upgrader*. New readers may overtake it for its window; then it is starving and
//! keeps them out. An upgradable reader that has to wait until it may enter starves as a writer
//! does, in the same line. If it could enter beside readers then, a stream of them could keep a
//! starving writer out.
//!
//! # Waiting
//! A waiter spins, sets the flag of its rank, and sleeps in the kernel on the upper half of
//! `state`, in its rank's futex set. When its window is over it is counted as starving, and does
//! the same in its other rank.
//!
//! # Release
//! A release computes the state that it leaves behind, clears in it the flags of all ranks that may
//! enter now, and makes that the state by one step (`Settled`). The flags that it cleared say which
//! waiters to wake: all readers, one upgradable reader and the upgrader; or one writer, if none of
//! those was there. An entry does the same: a starving upgradable reader lets readers in with it.
//!
//! # Invariants
//! 1. There is a writer or there are readers, never both, and at most one reader is upgradable;
//!    each is added by one step from a state that lets its rank enter (the table), and taken away
//!    by its holder. An upgrade is one step from a state without other readers.
//! 2. The step that takes a holder away is the last access of its release. After it, only the
//!    address goes to the kernel, as a key: the next holder may have freed the memory.
//! 3. The flag of a rank is set only in states that keep the rank out. So at the moment when the
//!    kernel compares, and finds what the waiter expects, the rank is kept out; and the step that
//!    lets it in clears the flag and wakes. There is no number of wake-ups that could come round to
//!    an old value.
//! 4. The flag of a starving rank, and the readers' turn, are set only while a thread of that kind
//!    is counted as starving.
//! 5. If a thread sleeps in a rank whose flag is clear, then a wake-up of it is under way, or a
//!    thread that was woken has neither entered nor given up yet. Such a thread sets the flags of
//!    the ranks for which it alone was woken (`hands_on`), in the step by which it enters or gives
//!    up; if that rank may enter then, it wakes one of it instead.
//! 6. The readers' turn begins when a writer or an upgradable reader leaves and readers are
//!    starving, and ends
//!    when no starving reader is left. During it no reader counts as starving, so it ends.
//!
//! Invariant 5 needs that the kernel never wakes a thread in vain: a thread that it counts as woken
//! returns so, even if its time was up as well.
//!
//! # The bound
//! A starving writer keeps all others out but starving ones. The holders leave the lock. Then it is
//! the turn of the starving writers, one at a time in the order in which they fell asleep, and
//! between two of them it is the turn of all starving readers together. So a waiter holds the lock
//! after at most: its window, its time in the run queue, and n + 1 times the longest hold of a
//! writer and the longest of a reader, where n writers were starving before it, and n = 1 for a
//! reader. Up to 4,095 of each kind can be starving; more wait for another window first.
//!
//! The window is the one that the caller asks for, or the lock's own, or that of the epoch that the
//! thread is in ([`crate::slo`]), or [`WINDOW_NS`](super::bounded::WINDOW_NS).
//!
//! # Cost
//! A reader leaves by a compare-and-exchange, because the last one clears flags in the same step. A
//! subtraction that looks at the flags afterwards is faster where readers contend (two threads that
//! do nothing but enter and leave, two far CPUs, 2026-11-23: 44 to 64 ns a pair, here 65 to 79),
//! but such a look is a use after free. Without contention both take 11 ns.
//!
//! # Reading twice
//! A thread that reads and wants to read once more waits for itself if a writer became starving in
//! between. The deadlock mode of [`super::observe()`] names such threads.
//!
//! # After a fork
//! The child has the counts and flags of waiters that stayed with the parent, and nothing heals
//! them here, unlike those of the mutex. A lock that other threads may have waited for during the
//! fork has to be made anew in the child.
//!
//! # Memory orderings
//! Entering is `Acquire`, leaving is `Release`, and every step is a read-modify-write of the one
//! word: so a writer synchronises with all readers before it. All else is relaxed: the kernel
//! orders a sleeper's comparison against the step before a wake-up.

mod state;
mod waiter;

use super::bounded::{self, Acquired, TimedOut, Wait};
use super::mutex::{on_acquire, on_release};
use core::time::Duration;
use platform::atomic::{AtomicU64, Ordering};
use platform::clock::duration_ns;
use platform::{futex, thread};
use state::{
    Kind, READ, READ_UPGRADABLY, READER, READERS, READERS_MAX, READERS_TURN, STARVING_READERS, Settled,
    UPGRADABLE, UPGRADE, WRITE, WRITER,
};
use waiter::Waiter;

platform::os_only! {
    mod guarded;

    pub use guarded::{
        MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
    };
}

/// A readers-writer lock without data: eight bytes, at most two million readers at a time.
///
/// Readers that come while a writer waits enter before it, for its window (1 ms unless set). Then
/// the writer is *starving* and keeps new readers out, as a starving reader keeps writers out. If
/// both starve they take turns (phase fairness: Brandenburg and Anderson, "Spin-based reader-writer
/// synchronization for multiprocessor real-time systems", 2010).
///
/// A thread that holds the lock last may free its memory at once, also while another thread is
/// still on its way out of the function by which it released the lock.
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
    state: AtomicU64,
}

impl RawRwLock {
    platform::const_fn! {
        /// A lock that no thread holds: all zero.
        pub const fn new() -> RawRwLock {
            RawRwLock { state: AtomicU64::new(0) }
        }
    }

    platform::const_fn! {
        /// A lock whose waiters may be overtaken for `window` instead of 1 ms, in epochs too. The
        /// window is rounded up by less than a quarter, to 5 ns at least; more than six days is
        /// for ever.
        ///
        /// ```
        /// use manx::lock::{RawRwLock, RwLock};
        /// use std::time::Duration;
        ///
        /// const WINDOW: Duration = Duration::from_millis(10);
        /// static PATIENT: RwLock<u32> = RwLock::from_raw(RawRwLock::with_window(WINDOW), 0);
        /// *PATIENT.write() += 1;
        /// assert_eq!(*PATIENT.read(), 1);
        /// ```
        pub const fn with_window(window: Duration) -> RawRwLock {
            let side = bounded::with_window_ns(duration_ns(window));
            RawRwLock { state: AtomicU64::new(state::free(side)) }
        }
    }

    /// Enters as a reader if that needs no waiting.
    #[inline]
    pub fn try_read(&self) -> bool {
        let entered = self.try_enter(&READ, self.state.load(Ordering::Relaxed));
        if entered {
            on_acquire();
        }
        entered
    }

    /// Enters as a writer if that needs no waiting.
    #[inline]
    pub fn try_write(&self) -> bool {
        // A look first would cost a trip for the cache line more. Acquire as in `try_enter`.
        let entered = match self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => true,
            Err(seen) => self.try_enter(&WRITE, seen),
        };
        if entered {
            on_acquire();
        }
        entered
    }

    /// Waits until it is a reader.
    ///
    /// ```
    /// use manx::lock::RawRwLock;
    ///
    /// static LOCK: RawRwLock = RawRwLock::new();
    /// LOCK.read();
    /// assert!(LOCK.is_held() && !LOCK.is_written());
    /// // SAFETY: this thread reads.
    /// unsafe { LOCK.release_read() };
    /// ```
    ///
    /// # Panics
    /// If there are 2²¹ readers, as when guards are forgotten in a loop.
    #[inline]
    pub fn read(&self) {
        if !self.try_read() {
            let _ = self.read_slow(&Wait::default());
        }
    }

    /// Waits until it is the writer.
    ///
    /// ```
    /// use manx::lock::RawRwLock;
    ///
    /// static LOCK: RawRwLock = RawRwLock::new();
    /// LOCK.write();
    /// assert!(LOCK.is_written());
    /// // SAFETY: this thread writes.
    /// unsafe { LOCK.release_write() };
    /// ```
    #[inline]
    pub fn write(&self) {
        if !self.try_write() {
            let _ = self.write_slow(&Wait::default());
        }
    }

    /// Waits as `wait` says until it is a reader, and returns how it went. If `wait` has no window
    /// and the lock has none of its own, it is that of the epoch that the calling thread is in
    /// ([`crate::slo`]).
    /// [`Wait::trusting`] changes nothing here: no wake-up is lost, so no waiter looks for one. The
    /// package `capi` calls it.
    ///
    /// # Errors
    /// The deadline is over.
    ///
    /// # Panics
    /// If there are 2²¹ readers, as when guards are forgotten in a loop.
    #[doc(hidden)]
    #[cold]
    pub fn read_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(&self.state, &READ, wait).enter().inspect(|_| on_acquire())
    }

    /// As [`RawRwLock::read_slow`], until it is the writer.
    ///
    /// # Errors
    /// The deadline is over.
    #[doc(hidden)]
    #[cold]
    pub fn write_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(&self.state, &WRITE, wait).enter().inspect(|_| on_acquire())
    }

    /// Enters as the upgradable reader if that needs no waiting.
    #[inline]
    pub fn try_read_upgradably(&self) -> bool {
        let entered = self.try_enter(&READ_UPGRADABLY, self.state.load(Ordering::Relaxed));
        if entered {
            on_acquire();
        }
        entered
    }

    /// As [`RawRwLock::read_slow`], until it is the upgradable reader. Tests call it.
    ///
    /// # Errors
    /// The deadline is over.
    #[doc(hidden)]
    #[cold]
    pub fn read_upgradably_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(&self.state, &READ_UPGRADABLY, wait).enter().inspect(|_| on_acquire())
    }

    /// Makes the calling thread, which is the upgradable reader, the writer if no other thread
    /// reads. Otherwise it stays the upgradable reader.
    ///
    /// # Safety
    /// The calling context is the upgradable reader.
    #[inline]
    pub unsafe fn try_upgrade(&self) -> bool {
        self.try_enter(&UPGRADE, self.state.load(Ordering::Relaxed))
    }

    /// Waits as `wait` says until the calling thread, which is the upgradable reader, is the
    /// writer. No thread writes in between.
    ///
    /// # Errors
    /// The deadline is over; it is the upgradable reader still.
    ///
    /// # Safety
    /// The calling context is the upgradable reader.
    #[doc(hidden)]
    #[cold]
    pub unsafe fn upgrade_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        Waiter::new(&self.state, &UPGRADE, wait).enter()
    }

    /// Ends the upgradable reader's stay, and returns whether a thread was woken.
    ///
    /// ```
    /// use manx::lock::RawRwLock;
    ///
    /// static LOCK: RawRwLock = RawRwLock::new();
    /// assert!(LOCK.try_read_upgradably());
    /// assert!(LOCK.try_read(), "beside readers, but only one of its kind");
    /// // SAFETY: this thread is both.
    /// unsafe {
    ///     LOCK.release_read();
    ///     LOCK.release_upgradable();
    /// }
    /// ```
    ///
    /// # Safety
    /// The calling context is the upgradable reader.
    #[inline]
    pub unsafe fn release_upgradable(&self) -> bool {
        on_release();
        self.leave(UPGRADABLE, 0)
    }

    /// Makes the calling thread, which is the upgradable reader, an ordinary one.
    ///
    /// # Safety
    /// The calling context is the upgradable reader.
    #[inline]
    pub unsafe fn downgrade_upgradable(&self) {
        self.leave(UPGRADABLE, READER);
    }

    /// Makes the calling thread, which is the writer, the upgradable reader: no thread writes in
    /// between.
    ///
    /// # Safety
    /// The calling context is the writer.
    #[inline]
    pub unsafe fn downgrade_to_upgradable(&self) {
        self.leave_as_writer(UPGRADABLE);
    }

    /// Ends a reader's stay.
    ///
    /// # Safety
    /// The calling context is a reader.
    #[inline]
    pub unsafe fn release_read(&self) {
        on_release();
        self.leave(READER, 0);
    }

    /// Ends the writer's stay.
    ///
    /// # Safety
    /// The calling context is the writer.
    #[inline]
    pub unsafe fn release_write(&self) {
        on_release();
        // Release pairs with the acquire of the next holder.
        if self.state.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.leave_as_writer(0);
        }
    }

    /// Makes the calling thread, which is the writer, a reader: no thread writes in between.
    ///
    /// # Safety
    /// The calling context is the writer.
    #[inline]
    pub unsafe fn downgrade(&self) {
        self.leave_as_writer(READER);
    }

    /// Ends a reader's stay, and lets the waiters run.
    ///
    /// # Safety
    /// The calling context is a reader.
    pub unsafe fn release_read_fair(&self) {
        on_release();
        if self.leave(READER, 0) {
            thread::yield_now();
        }
    }

    /// Ends the writer's stay, and lets the waiters run.
    ///
    /// # Safety
    /// The calling context is the writer.
    pub unsafe fn release_write_fair(&self) {
        on_release();
        if self.leave_as_writer(0) {
            thread::yield_now();
        }
    }

    /// Returns whether a thread reads or writes just now.
    pub fn is_held(&self) -> bool {
        // Relaxed: out of date when it is returned, whatever the ordering.
        self.state.load(Ordering::Relaxed) & (WRITER | READERS | UPGRADABLE) != 0
    }

    /// Whether there are as many readers as can be counted, so that one more would panic. The
    /// package `capi` asks.
    #[doc(hidden)]
    pub fn is_full(&self) -> bool {
        // Relaxed: out of date when it is returned, whatever the ordering.
        self.state.load(Ordering::Relaxed) & READERS >= READERS_MAX
    }

    /// Returns whether a thread writes just now.
    pub fn is_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }

    #[inline(always)]
    fn try_enter(&self, kind: &Kind, mut seen: u64) -> bool {
        while kind.waits.may_enter(seen) && seen & READERS < READERS_MAX {
            // Acquire pairs with the release of the earlier holders (Invariant 1).
            let entered = seen + kind.enters;
            match self.state.compare_exchange_weak(seen, entered, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    #[cold]
    fn leave_as_writer(&self, instead: u64) -> bool {
        self.leave(WRITER, instead)
    }

    /// Takes a holder away, or puts `instead` in its place; returns whether a thread was woken.
    /// Nothing is read or written after the step (Invariant 2).
    #[inline(always)]
    fn leave(&self, holder: u64, instead: u64) -> bool {
        let place = futex::upper(&raw const self.state);
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            let left = seen - holder + instead;
            let is_last_reader = holder == READER && left & READERS == 0;
            let settled = if holder != READER && left & STARVING_READERS != 0 {
                // Invariant 6.
                Settled::of(left | READERS_TURN)
            } else if holder != READER || is_last_reader {
                Settled::of(left)
            } else {
                // A reader that leaves while another one stays lets no waiter in.
                Settled::as_it_is(left)
            };
            // Release pairs with the acquire of the next holder.
            match self.state.compare_exchange_weak(seen, settled.state, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return !settled.wakes.none() && settled.wakes.wake(place),
                Err(now) => seen = now,
            }
        }
    }
}

impl Default for RawRwLock {
    fn default() -> RawRwLock {
        RawRwLock::new()
    }
}

platform::os_only! {
    const _: () = assert!(size_of::<RawRwLock>() == 8 && align_of::<RawRwLock>() == 8);
}
