//! A piece of work that is done once, whichever thread comes first.
//!
//! # State
//! One word: [`NEW`], [`POISONED`], [`RUNNING`] or [`DONE`], the first three perhaps with
//! [`SLEEPERS`]. Only the thread that made it running runs the work, and only that thread takes it
//! out of running.
//!
//! # Invariants
//! 1. The step to running is a compare-and-exchange from `NEW` or `POISONED`, so one thread at a
//!    time runs the work.
//! 2. A thread that sleeps set `SLEEPERS` or saw it set, and the kernel compares again before the
//!    thread sleeps. The step to running keeps `SLEEPERS`. The step out of running is a swap, and
//!    if it takes `SLEEPERS` away it wakes all sleepers: no wake-up is lost.
//! 3. The step to `DONE` is `Release`, and a caller that finds `DONE` has loaded it with `Acquire`:
//!    what the work wrote is visible to it.
//!
//! Waiters do not spin: work that is worth doing once takes longer than a sleep.

use platform::atomic::{AtomicU32, Ordering};
use platform::futex;

/// Threads may sleep until the work is done; beside any of the others but `DONE`.
const SLEEPERS: u32 = 1;
const NEW: u32 = 0;
const POISONED: u32 = 2;
const RUNNING: u32 = 4;
const DONE: u32 = 6;

/// How far a [`Once`] is.
///
/// ```
/// use manx::lock::{Once, OnceState};
///
/// static READY: Once = Once::new();
/// assert_eq!(READY.state(), OnceState::New);
/// READY.call_once(|| ());
/// assert!(READY.state().done() && !READY.state().poisoned());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnceState {
    /// No thread has begun.
    New,
    /// The work began and panicked.
    Poisoned,
    /// A thread does the work now.
    InProgress,
    /// The work is done.
    Done,
}

impl OnceState {
    /// Whether the work began and panicked.
    pub const fn poisoned(self) -> bool {
        matches!(self, OnceState::Poisoned)
    }

    /// Whether the work is done.
    pub const fn done(self) -> bool {
        matches!(self, OnceState::Done)
    }

    /// As [`OnceState::poisoned`].
    pub const fn is_poisoned(self) -> bool {
        self.poisoned()
    }

    /// As [`OnceState::done`].
    pub const fn is_completed(self) -> bool {
        self.done()
    }
}

/// Does a piece of work once; callers that come meanwhile wait until it is done. Four bytes.
///
/// It is as `parking_lot::Once`. Work that calls [`Once::call_once`] on the same value waits for
/// itself. Use [`std::sync::OnceLock`] if the work makes a value.
///
/// ```
/// use manx::lock::{Once, OnceState};
///
/// static STARTED: Once = Once::new();
///
/// let mut times = 0;
/// STARTED.call_once(|| times += 1);
/// STARTED.call_once(|| times += 1);
/// assert_eq!((times, STARTED.state()), (1, OnceState::Done));
/// ```
#[derive(Debug)]
pub struct Once {
    state: AtomicU32,
}

impl Once {
    platform::const_fn! {
        /// A piece of work that has not begun.
        pub const fn new() -> Once {
            Once { state: AtomicU32::new(NEW) }
        }
    }

    platform::const_fn! {
        /// A piece of work that counts as done.
        pub const fn new_completed() -> Once {
            Once { state: AtomicU32::new(DONE) }
        }
    }

    /// Returns how far the work is. After [`OnceState::Done`] its effects are visible.
    #[inline]
    pub fn state(&self) -> OnceState {
        // Acquire: Invariant 3.
        match self.state.load(Ordering::Acquire) & !SLEEPERS {
            NEW => OnceState::New,
            POISONED => OnceState::Poisoned,
            DONE => OnceState::Done,
            _ => OnceState::InProgress,
        }
    }

    /// Whether the work is done. Its effects are then visible.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.state().done()
    }

    /// Waits until the work is done, also if no thread has begun it.
    ///
    /// ```
    /// use manx::lock::Once;
    ///
    /// static READY: Once = Once::new();
    ///
    /// let waiter = std::thread::spawn(|| READY.wait());
    /// READY.call_once(|| println!("ready"));
    /// waiter.join().unwrap();
    /// ```
    ///
    /// # Panics
    /// If the work panicked: see [`Once::wait_force`].
    #[inline]
    pub fn wait(&self) {
        if !self.is_completed() {
            self.wait_slow(false);
        }
    }

    /// As [`Once::wait`], but if the work panicked it waits until another call has done it.
    #[inline]
    pub fn wait_force(&self) {
        if !self.is_completed() {
            self.wait_slow(true);
        }
    }

    /// Does the work if no call has done it, or waits until it is done.
    ///
    /// # Panics
    /// If the work panicked in an earlier call: see [`Once::call_once_force`].
    #[inline]
    pub fn call_once(&self, work: impl FnOnce()) {
        if !self.state().done() {
            self.call(false, |_| work());
        }
    }

    /// As [`Once::call_once`], but if the work panicked in an earlier call this call tries again.
    /// The work gets the state before: [`OnceState::New`] or [`OnceState::Poisoned`].
    ///
    /// ```
    /// use manx::lock::Once;
    ///
    /// let once = Once::new();
    /// let failed = std::panic::catch_unwind(|| once.call_once(|| panic!("no disk")));
    /// assert!(failed.is_err() && once.state().poisoned());
    /// once.call_once_force(|before| assert!(before.poisoned()));
    /// assert!(once.state().done());
    /// ```
    #[inline]
    pub fn call_once_force(&self, work: impl FnOnce(OnceState)) {
        if !self.state().done() {
            self.call(true, work);
        }
    }

    #[cold]
    fn call(&self, force: bool, work: impl FnOnce(OnceState)) {
        while let Some(state) = self.undone(force) {
            if state & !SLEEPERS == RUNNING {
                self.sleep(state);
                continue;
            }
            // Invariants 1 and 2. Acquire: for what an earlier attempt wrote before it panicked.
            let running = RUNNING | state & SLEEPERS;
            let begun = self.state.compare_exchange(state, running, Ordering::Acquire, Ordering::Relaxed);
            if begun.is_ok() {
                let mut end = End { once: self, with: POISONED };
                work(if state & !SLEEPERS == NEW { OnceState::New } else { OnceState::Poisoned });
                end.with = DONE;
                return;
            }
        }
    }

    #[cold]
    fn wait_slow(&self, force: bool) {
        while let Some(state) = self.undone(force) {
            self.sleep(state);
        }
    }

    /// The word, unless the work is done.
    ///
    /// # Panics
    /// If the work panicked, unless `force`.
    fn undone(&self, force: bool) -> Option<u32> {
        // Acquire: Invariant 3.
        let state = self.state.load(Ordering::Acquire);
        assert!(
            force || state & !SLEEPERS != POISONED,
            "the work of this `Once` panicked in an earlier call"
        );
        (state != DONE).then_some(state)
    }

    /// Sleeps until the work has ended, or returns early; the caller looks again. `state` is the
    /// word as the caller saw it.
    fn sleep(&self, state: u32) {
        let sleeping = state | SLEEPERS;
        // Invariant 2. Relaxed: the caller looks again.
        let marked = state == sleeping
            || self.state.compare_exchange(state, sleeping, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if marked {
            futex::wait(&self.state, sleeping);
        }
    }
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

/// Ends the work when it is dropped, also by a panic.
struct End<'a> {
    once: &'a Once,
    with: u32,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // Release: Invariant 3.
        if self.once.state.swap(self.with, Ordering::Release) & SLEEPERS != 0 {
            // Invariant 2.
            futex::wake_all(&raw const self.once.state);
        }
    }
}
