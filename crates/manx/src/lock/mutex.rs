//! The default mutex, eight bytes: [`bounded`] with its two words side by side.
//!
//! There is no poisoning: a critical section that panics releases the lock as it unwinds, and what it left
//! half done is seen by the next.

use super::bounded::{self, Acquired, Thread, TimedOut, Wait};
use platform::atomic::{AtomicU32, Ordering};
use platform::futex::Deadline;

platform::thread_local! {
    static THREAD: Thread = Thread::new();
}

/// The default mutex without data. See [`bounded`].
#[repr(C)]
#[derive(Debug)]
pub struct RawMutex {
    word: AtomicU32,
    side: AtomicU32,
}

impl RawMutex {
    platform::const_fn! {
        /// A mutex that nobody holds.
        pub const fn new() -> RawMutex {
            RawMutex { word: AtomicU32::new(0), side: AtomicU32::new(0) }
        }
    }

    /// Waits for the mutex.
    #[inline]
    pub fn acquire(&self) {
        if !bounded::try_acquire(&self.word) {
            let _ = self.acquire_slow(&Wait::default());
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        bounded::try_acquire(&self.word)
    }

    /// Waits for the mutex until the deadline; false if it could not be had by then.
    pub fn acquire_until(&self, deadline: Deadline) -> bool {
        bounded::try_acquire(&self.word)
            || self.acquire_slow(&Wait { deadline: Some(deadline), ..Wait::default() }).is_ok()
    }

    /// Waits for the mutex as told, and tells how it went.
    ///
    /// # Errors
    /// The deadline is over.
    #[cold]
    pub fn acquire_slow(&self, wait: &Wait) -> Result<Acquired, TimedOut> {
        THREAD.with(|thread| bounded::acquire_slow(&self.word, &self.side, thread, wait))
    }

    /// Releases the mutex.
    ///
    /// # Safety
    /// The calling context holds it.
    #[inline]
    pub unsafe fn release(&self) {
        if !bounded::try_release(&self.word) {
            self.release_slow();
        }
    }

    #[cold]
    fn release_slow(&self) {
        THREAD.with(|thread| bounded::release_slow(&self.word, &self.side, thread));
    }

    /// Releases the mutex to whoever waits, rather than to whoever runs.
    ///
    /// # Safety
    /// The calling context holds it.
    pub unsafe fn release_fair(&self) {
        if !bounded::try_release(&self.word) {
            bounded::release_fair(&self.word, &self.side);
        }
    }

    /// Whether somebody holds the mutex just now.
    pub fn is_acquired(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }
}

impl Default for RawMutex {
    fn default() -> RawMutex {
        RawMutex::new()
    }
}

platform::os_only! {
    const _: () = assert!(size_of::<RawMutex>() == 8);

    /// The default mutex around data. See [`super`].
    pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
    /// What a locked [`Mutex`] is used through; unlocks it when dropped.
    pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

    // SAFETY: exclusion, acquire and release are those of `bounded` (its Invariant 1).
    unsafe impl lock_api::RawMutex for RawMutex {
        const INIT: RawMutex = RawMutex::new();
        type Guard = lock_api::GuardSend;

        #[inline]
        fn lock(&self) -> lock_api::GuardSend {
            self.acquire();
            lock_api::GuardSend::new()
        }

        #[inline]
        fn try_lock(&self) -> Option<lock_api::GuardSend> {
            self.try_acquire().then(lock_api::GuardSend::new)
        }

        #[inline]
        unsafe fn unlock(&self, _guard: lock_api::GuardSend) {
            // SAFETY: the caller gives back the state of its acquisition.
            unsafe { self.release() }
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.is_acquired()
        }
    }
}
