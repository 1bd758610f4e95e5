//! The default mutex, eight bytes: [`bounded`] with its two words side by side.
//!
//! All-zero is free. There is no poisoning: a critical section that panics releases the mutex as it
//! unwinds, and the next holder sees what it left half done.

use super::bounded::{self, Acquired, Thread, TimedOut, UNBOUNDED_NS, Wait};
use super::line;
use crate::slo;
use core::time::Duration;
use platform::atomic::{AtomicU32, Ordering};
use platform::clock::{duration_ns, ticks, ticks_to_ns};

platform::thread_local! {
    static THREAD: Thread = Thread::new();
}

/// The calling thread has taken a lock of this room: see `slice.rs`.
#[inline]
pub(super) fn on_acquire() {
    THREAD.with(Thread::on_acquire);
}

/// The calling thread is about to release one.
#[inline]
pub(super) fn on_release() {
    THREAD.with(Thread::on_release);
}

/// The default mutex without data: see [`Mutex`](super::Mutex).
///
/// ```
/// use manx::lock::RawMutex;
///
/// static MUTEX: RawMutex = RawMutex::new();
/// MUTEX.acquire();
/// assert!(!MUTEX.try_acquire());
/// // SAFETY: acquired above.
/// unsafe { MUTEX.release() };
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct RawMutex {
    word: AtomicU32,
    side: AtomicU32,
}

impl RawMutex {
    platform::const_fn! {
        /// A mutex that no thread holds.
        pub const fn new() -> RawMutex {
            RawMutex { word: AtomicU32::new(0), side: AtomicU32::new(0) }
        }
    }

    platform::const_fn! {
        /// A mutex whose waiters may be overtaken for `window` instead of 1 ms, in epochs too. The
        /// window is rounded up by less than a quarter, to 5 ns at least; more than six days is
        /// for ever.
        ///
        /// ```
        /// use manx::lock::{Mutex, RawMutex};
        /// use std::time::Duration;
        ///
        /// const WINDOW: Duration = Duration::from_millis(10);
        /// static PATIENT: Mutex<u32> = Mutex::from_raw(RawMutex::with_window(WINDOW), 0);
        /// *PATIENT.lock() += 1;
        /// ```
        pub const fn with_window(window: Duration) -> RawMutex {
            let side = bounded::with_window_ns(duration_ns(window));
            RawMutex { word: AtomicU32::new(0), side: AtomicU32::new(side) }
        }
    }

    /// Waits until the calling thread holds the mutex. A thread that holds it already waits for
    /// ever.
    ///
    /// ```
    /// use manx::lock::RawMutex;
    ///
    /// static MUTEX: RawMutex = RawMutex::new();
    /// MUTEX.acquire();
    /// // … alone …
    /// // SAFETY: acquired above.
    /// unsafe { MUTEX.release() };
    /// assert!(!MUTEX.is_acquired());
    /// ```
    #[inline]
    pub fn acquire(&self) {
        if !self.try_acquire() {
            // Without a deadline it succeeds.
            let _ = self.acquire_slow(&Wait::default());
        }
    }

    /// Takes the mutex if it is free.
    ///
    /// ```
    /// use manx::lock::RawMutex;
    ///
    /// static MUTEX: RawMutex = RawMutex::new();
    /// assert!(MUTEX.try_acquire());
    /// assert!(!MUTEX.try_acquire());
    /// // SAFETY: acquired above.
    /// unsafe { MUTEX.release() };
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> bool {
        let acquired = bounded::try_acquire(&self.word);
        if acquired {
            on_acquire();
        }
        acquired
    }

    /// Waits for the mutex as `wait` says, and returns how it went. If `wait` has no window and the
    /// mutex has none of its own, it is that of the epoch that the calling thread is in
    /// ([`crate::slo`]). The package `capi` calls it.
    ///
    /// # Errors
    /// The deadline is over.
    #[doc(hidden)]
    #[cold]
    pub fn acquire_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        THREAD.with(|thread| {
            // No code but ours works on this mutex.
            let trusting = true;
            // Before the first look at the ticks: it may decide what they count.
            thread.met_contention();
            let began_ticks = ticks();
            let window_ns = |side| {
                let of_epoch = || bounded::window_in_epoch(side, slo::window_ns());
                wait.window_ns.or_else(of_epoch).unwrap_or_else(|| bounded::window_ns(side))
            };
            let spun = match wait.deadline {
                None if line::pays() => bounded::spin_in_line(&self.word, &self.side, thread, window_ns),
                _ => bounded::spin(&self.word, &self.side, thread, trusting),
            };
            let acquired = match spun {
                Ok(()) => Acquired::default(),
                Err(side_seen) => {
                    // The spin is part of the window.
                    let spun_ns = ticks_to_ns(ticks().wrapping_sub(began_ticks));
                    let window_ns = match window_ns(side_seen) {
                        UNBOUNDED_NS => UNBOUNDED_NS,
                        window_ns => window_ns.saturating_sub(spun_ns),
                    };
                    let wait = Wait { window_ns: Some(window_ns), trusting, ..*wait };
                    bounded::sleep(&self.word, &self.side, thread, &wait, side_seen)?
                }
            };
            thread.on_acquire();
            Ok(acquired)
        })
    }

    /// Releases the mutex.
    ///
    /// # Safety
    /// The calling context holds it.
    #[inline]
    pub unsafe fn release(&self) {
        on_release();
        if !bounded::try_release(&self.word) {
            self.release_slow();
        }
    }

    #[cold]
    fn release_slow(&self) {
        THREAD.with(|thread| bounded::release_slow(&self.word, &self.side, thread));
    }

    /// Releases the mutex to a waiter, rather than to a running thread.
    ///
    /// ```
    /// use manx::lock::RawMutex;
    ///
    /// static MUTEX: RawMutex = RawMutex::new();
    /// MUTEX.acquire();
    /// // A waiter gets it next, even if this thread wants it again at once.
    /// // SAFETY: acquired above.
    /// unsafe { MUTEX.release_fair() };
    /// ```
    ///
    /// # Safety
    /// The calling context holds it.
    #[inline]
    pub unsafe fn release_fair(&self) {
        on_release();
        if !bounded::try_release(&self.word) {
            bounded::release_fair(&self.word, &self.side);
        }
    }

    /// Returns whether a thread holds the mutex just now.
    pub fn is_acquired(&self) -> bool {
        // Relaxed: out of date when it is returned, whatever the ordering.
        self.word.load(Ordering::Relaxed) != 0
    }
}

impl Default for RawMutex {
    fn default() -> RawMutex {
        RawMutex::new()
    }
}

// SAFETY: exclusion, acquire and release are those of `bounded` (its Invariant 1); no pointer into
// the lock is kept while no thread waits.
unsafe impl super::RawLock for RawMutex {
    type Held = ();
    const NAME: &'static str = "manx";
    platform::initial! { RawMutex::new() }

    #[inline]
    fn lock(&self) {
        self.acquire();
    }

    #[inline]
    fn try_lock(&self) -> Option<()> {
        self.try_acquire().then_some(())
    }

    #[inline]
    unsafe fn unlock(&self, (): ()) {
        // SAFETY: the caller holds it.
        unsafe { self.release() }
    }

    fn is_locked(&self) -> bool {
        self.is_acquired()
    }
}

platform::os_only! {
    use super::observe::{self, Access, WaitOutcome};
    use lock_api::GuardNoSend;
    use platform::futex::Deadline;
    use std::panic::Location;
    use std::time::Instant;

    const _: () = assert!(size_of::<RawMutex>() == 8 && align_of::<RawMutex>() == 4);

    /// The default mutex around data: eight bytes and the data.
    ///
    /// Running threads may take it before sleeping waiters, for a window of 1 ms, or as long as
    /// the thread's epoch allows ([`crate::slo`]). After that the waiter is *starving*, and the
    /// next release hands the lock off to it. There is no poisoning. All methods are `lock_api`'s;
    /// [`RawMutex::with_window`] sets another window.
    ///
    /// A thread that locks a mutex which it holds waits for ever.
    ///
    /// ```
    /// use manx::lock::Mutex;
    /// use std::time::Duration;
    ///
    /// static LOG: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    ///
    /// LOG.lock().push(1);
    /// let log = LOG.lock();
    /// assert_eq!(*log, [1]);
    /// assert!(LOG.try_lock().is_none());
    /// assert!(LOG.try_lock_for(Duration::from_millis(1)).is_none());
    /// ```
    pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
    /// The guard of a locked [`Mutex`]: gives access to the data, and unlocks when it is dropped.
    ///
    /// ```
    /// use manx::lock::{Mutex, MutexGuard};
    ///
    /// fn next(mut count: MutexGuard<'_, u32>) -> u32 {
    ///     *count += 1;
    ///     *count
    /// }
    /// assert_eq!(next(Mutex::new(1).lock()), 2);
    /// ```
    pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
    /// The guard of a part of a locked [`Mutex`]'s data (`MutexGuard::map`);
    /// unlocks when it is dropped.
    ///
    /// ```
    /// use manx::lock::{MappedMutexGuard, Mutex, MutexGuard};
    ///
    /// let pair = Mutex::new((1, "one"));
    /// let number: MappedMutexGuard<'_, u32> = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
    /// assert_eq!(*number, 1);
    /// assert!(pair.try_lock().is_none());
    /// ```
    pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

    impl RawMutex {
        fn address(&self) -> usize {
            core::ptr::from_ref(self).addr()
        }

        #[cold]
        #[track_caller]
        fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
            // No closure: a closure's caller is not ours.
            let waiting = if observe::on() {
                let limited = deadline.is_some();
                Some(observe::waiting(self.address(), Location::caller(), Access::Exclusive, limited))
            } else {
                None
            };
            let Ok(acquired) = self.acquire_slow(&Wait { deadline, ..Wait::default() }) else {
                return false;
            };
            if let Some(waiting) = waiting {
                waiting.acquired(WaitOutcome { starving: acquired.starving, handed_over: acquired.handed_off });
            }
            true
        }

        /// Locks, or returns `None` once the deadline is over.
        #[track_caller]
        fn lock_until(&self, deadline: Deadline) -> Option<GuardNoSend> {
            lock_api::RawMutex::try_lock(self)
                .or_else(|| self.lock_contended(Some(deadline)).then(GuardNoSend::new))
        }

        /// Tells observers, if there are any, that the mutex is about to be released.
        #[inline(always)]
        fn observe_release(&self) {
            if observe::on() {
                observe::released(self.address(), Access::Exclusive);
            }
        }
    }

    // SAFETY: exclusion, acquire and release are those of `bounded` (its Invariant 1). An observer
    // panics before the wait only, when nothing has been acquired.
    unsafe impl lock_api::RawMutex for RawMutex {
        const INIT: RawMutex = RawMutex::new();
        type Guard = GuardNoSend;

        #[inline]
        #[track_caller]
        fn lock(&self) -> GuardNoSend {
            if !self.try_acquire() {
                self.lock_contended(None);
            } else if observe::on() {
                observe::acquired(self.address(), Location::caller(), Access::Exclusive);
            }
            GuardNoSend::new()
        }

        #[inline]
        #[track_caller]
        fn try_lock(&self) -> Option<GuardNoSend> {
            let acquired = self.try_acquire();
            if acquired && observe::on() {
                observe::acquired(self.address(), Location::caller(), Access::Exclusive);
            }
            acquired.then(GuardNoSend::new)
        }

        #[inline]
        unsafe fn unlock(&self, _guard: GuardNoSend) {
            self.observe_release();
            // SAFETY: the caller gives back the state of its acquisition.
            unsafe { self.release() }
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.is_acquired()
        }
    }

    // SAFETY: as above; a hand-off goes to one waiter, which holds the lock from when it takes the
    // offer.
    unsafe impl lock_api::RawMutexFair for RawMutex {
        #[inline]
        unsafe fn unlock_fair(&self, _guard: GuardNoSend) {
            self.observe_release();
            // SAFETY: the caller gives back the state of its acquisition.
            unsafe { self.release_fair() }
        }
    }

    // SAFETY: as above; a wait that timed out holds nothing.
    unsafe impl lock_api::RawMutexTimed for RawMutex {
        type Duration = Duration;
        type Instant = Instant;

        #[track_caller]
        fn try_lock_for(&self, timeout: Duration) -> Option<GuardNoSend> {
            self.lock_until(Deadline::after(timeout))
        }

        #[track_caller]
        fn try_lock_until(&self, end: Instant) -> Option<GuardNoSend> {
            self.lock_until(Deadline::after(end.saturating_duration_since(Instant::now())))
        }
    }
}
