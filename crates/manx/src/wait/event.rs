//! The parking policy: pause a few times, then sleep in the kernel until the other side signals.
//!
//! A waiter that parks burns nothing and is woken at once, but the other side has to say so: the
//! thread that makes a condition true calls [`Event::signal_all`] or [`Event::signal_one`]
//! afterwards. That costs it a fence and a load as long as no thread is parked. An event stands
//! beside the data that the condition is about, knows nothing of it, and serves any number of
//! conditions; this is the construct known as an event count (Reed and Kanodia, "Synchronization
//! with eventcounts and sequencers", 1979).
//!
//! The state is two words, both zero at first.
//!
//! | word | meaning | changed by |
//! | --- | --- | --- |
//! | `sequence` | signals so far that had a waiter to tell; parked threads sleep on it | signallers: +1 |
//! | `parked` | threads that are parked, or about to look a last time before they are | waiters: +1, −1 |
//!
//! A waiter goes through these steps, with a look of the caller's between any two of them:
//!
//! ```text
//!   spin ──► register: parked += 1; fence; key = sequence ──► park while sequence == key; key = sequence ─┐
//!                                                              ▲                                          │
//!                                                              └──────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. `parked` is the number of [`Parker`]s that have registered and not been dropped.
//! 2. Between reading `key` and parking on it, the caller looks. So a thread that signals after
//!    that look changes `sequence`, and the waiter does not sleep, or is woken.
//! 3. Of a registered waiter's last look and a signal, one sees the other (see *Memory orderings*):
//!    the look finds the condition true, or the signal finds `parked` above 0.
//! 4. A waiter that was woken and leaves before it looked again hands its wake-up on, so that
//!    [`Event::signal_one`] always reaches a waiter that looks.
//!
//! # Memory orderings
//! - Registering (`parked += 1`, then a sequentially consistent fence, then a look) against
//!   signalling (the condition, then a sequentially consistent fence, then a load of `parked`) is
//!   Dekker's pattern: whichever fence is second in the single order sees what was written before
//!   the first. That is Invariant 3, and the accesses themselves may be relaxed.
//! - `sequence` is increased with release and read as a key with acquire: a waiter whose key
//!   already has a signal's increment sees that signal's condition in its next look, and may sleep
//!   on the key.
//!
//! A waiter would sleep in error if `sequence` went around all 2³² values between its look and its
//! sleep.

use super::{Action, Backoff, Policy, Waiter, short_of_cpus};
use crate::cpu::refresh_if_old;
use platform::atomic::{AtomicU32, Ordering, fence};
use platform::{cpu, futex};

/// Something that may happen, and its waiters.
///
/// ```
/// use manx::wait::Event;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static READY: AtomicBool = AtomicBool::new(false);
/// static EVENT: Event = Event::new();
///
/// let other = std::thread::spawn(|| {
///     READY.store(true, Ordering::Release);
///     EVENT.signal_all(); // after the condition is true, never before
/// });
/// let mut backoff = EVENT.start();
/// while !READY.load(Ordering::Acquire) {
///     backoff.wait();
/// }
/// # other.join().unwrap();
/// ```
#[derive(Debug)]
pub struct Event {
    sequence: AtomicU32,
    parked: AtomicU32,
}

platform::os_only! {
    const _: () = assert!(size_of::<Event>() == 8);

    impl Default for Event {
        fn default() -> Self {
            Event::new()
        }
    }
}

impl Event {
    /// How often a waiter pauses before it registers, unless told otherwise.
    pub const SPINS: u32 = 100;

    platform::const_fn! {
        /// Returns an event without waiters.
        pub const fn new() -> Self {
            Event { sequence: AtomicU32::new(0), parked: AtomicU32::new(0) }
        }
    }

    /// Begins a wait.
    #[inline]
    pub const fn start(&self) -> Backoff<Parker<'_>> {
        self.start_spinning(Event::SPINS)
    }

    /// Begins a wait that pauses `spins` times before it parks; not once while the process is short
    /// of CPUs.
    #[inline]
    pub const fn start_spinning(&self, spins: u32) -> Backoff<Parker<'_>> {
        Backoff::new(Parker::new(self, spins))
    }

    /// Tells all waiters to look again.
    #[inline]
    pub fn signal_all(&self) {
        if self.anybody_parked() {
            self.wake(u32::MAX);
        }
    }

    /// Tells one waiter to look again: for conditions that one waiter uses up, such as a free lock.
    /// All waiters must wait for the same condition then.
    ///
    /// ```
    /// use manx::wait::{Event, Policy};
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// static TAKEN: AtomicBool = AtomicBool::new(false);
    /// static FREED: Event = Event::new();
    /// let pass = || {
    ///     FREED.until(|| !TAKEN.swap(true, Ordering::Acquire));
    ///     TAKEN.store(false, Ordering::Release);
    ///     FREED.signal_one(); // only one can take it
    /// };
    /// std::thread::scope(|scope| {
    ///     scope.spawn(pass);
    ///     scope.spawn(pass);
    /// });
    /// ```
    #[inline]
    pub fn signal_one(&self) {
        if self.anybody_parked() {
            self.wake(1);
        }
    }

    /// How many threads are parked or about to be, at this moment.
    pub fn parked(&self) -> u32 {
        // Relaxed: a number to look at.
        self.parked.load(Ordering::Relaxed)
    }

    /// The signaller's side of Dekker's pattern: what was written before this is seen by every
    /// waiter that this does not see.
    #[inline]
    pub(super) fn anybody_parked(&self) -> bool {
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::Relaxed) != 0
    }

    /// Wakes up to `count` waiters, and makes the waiters that are about to park look again;
    /// returns how many it woke.
    #[cold]
    pub(super) fn wake(&self, count: u32) -> usize {
        self.sequence.fetch_add(1, Ordering::Release);
        futex::wake(&self.sequence, count)
    }
}

impl Policy for Event {
    type Waiter<'a> = Parker<'a>;

    #[inline]
    fn start(&self) -> Backoff<Parker<'_>> {
        Event::start(self)
    }
}

/// A thread that waits by [`Event`].
#[derive(Debug)]
pub struct Parker<'a> {
    event: &'a Event,
    spins_left: u32,
    /// The value of `sequence` before the caller's last look, if registered.
    key: Option<u32>,
    /// The last round parked and was ended by a signal, and the caller may not have looked since.
    woken: bool,
    /// Some round had a limit, so the caller may leave without what it waited for.
    may_give_up: bool,
}

impl<'a> Parker<'a> {
    pub(super) const fn new(event: &'a Event, spins: u32) -> Self {
        let spins_left = platform::spin_bound(spins);
        Parker { event, spins_left, key: None, woken: false, may_give_up: false }
    }

    /// Whether the last round parked and was ended by a signal.
    pub(super) const fn was_woken(&self) -> bool {
        self.woken
    }

    /// Whether a signal would be noticed by parking.
    pub(super) const fn is_registered(&self) -> bool {
        self.key.is_some()
    }

    /// Registers, so that from the caller's next look on no signal is missed.
    #[cold]
    fn register(&mut self) {
        // For waits that begin from now on: this waiter has spun, or was told not to.
        refresh_if_old();
        // Relaxed and a fence: see the module's text.
        self.event.parked.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.key = Some(self.event.sequence.load(Ordering::Acquire));
    }

    /// Takes the registration back: the caller waits in another way.
    pub(super) fn unregister(&mut self) {
        self.woken = false;
        if self.key.take().is_some() {
            // Relaxed: only the registrations order anything.
            self.event.parked.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn park(&mut self, key: u32, timeout_ns: u64) {
        let sequence = &self.event.sequence;
        let outcome = if timeout_ns == u64::MAX {
            futex::wait(sequence, key)
        } else {
            futex::wait_for(sequence, key, timeout_ns)
        };
        self.woken = outcome == futex::Outcome::Woken;
        self.key = Some(sequence.load(Ordering::Acquire));
    }
}

impl Waiter for Parker<'_> {
    #[inline]
    fn round(&mut self, timeout_ns: u64) -> Action {
        self.may_give_up |= timeout_ns != u64::MAX;
        match self.key {
            None if self.spins_left > 0 && !short_of_cpus() => {
                self.spins_left -= 1;
                cpu::pause();
                Action::Spin
            }
            None => {
                self.register();
                Action::Spin
            }
            Some(key) => {
                self.park(key, timeout_ns);
                Action::Park
            }
        }
    }
}

impl Drop for Parker<'_> {
    fn drop(&mut self) {
        if platform::execution_failed() {
            return;
        }
        let hand_on = self.woken && (self.may_give_up || std::thread::panicking());
        self.unregister();
        if hand_on {
            // Invariant 4.
            self.event.signal_one();
        }
    }
}
