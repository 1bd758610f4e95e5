//! What every lock of this room can do, so that any of them can stand under another and in every
//! benchmark.
//!
//! A lock protects nothing by itself and knows nothing of guards. [`RawLock::lock`] returns what
//! the holder has to keep until it unlocks ([`RawLock::Held`]): nothing for most, the place in the
//! queue for locks that queue. Guards move, so whatever others point to is never in there, only a
//! pointer to it.
//!
//! On the machine each of them is also a [`::lock_api::RawMutex`], so `lock_api::Mutex<Mcs, T>` is
//! a mutex around a `T` that passes in the order of arrival; a lock of another package becomes one
//! by [`for_lock_api!`]. There is no poisoning: a guard that a panic drops unlocks, and the next
//! holder finds the data as they were left.

/// A lock, without what it protects.
///
/// ```
/// use manx::lock::{FutexMutex, Mcs, RawLock};
///
/// fn twice<L: RawLock>(lock: &L, work: impl Fn()) {
///     for _ in 0..2 {
///         let held = lock.lock();
///         work();
///         // SAFETY: this thread holds the lock by `held`.
///         unsafe { lock.unlock(held) };
///     }
///     assert!(!lock.is_locked());
/// }
/// twice(&FutexMutex::new(), || ());
/// twice(&Mcs::new(), || ());
/// assert_eq!(<Mcs as RawLock>::NAME, "mcs");
/// ```
///
/// # Safety
/// Between a return of [`lock`](RawLock::lock) or a success of [`try_lock`](RawLock::try_lock) and
/// the [`unlock`](RawLock::unlock) with what they returned, no other call may return so. What was
/// written before an unlock is visible after the next such return. A lock may be moved or dropped
/// while it is held, if no thread waits for it.
pub unsafe trait RawLock: Send + Sync {
    /// What the holder keeps until it unlocks. If it is not [`Send`], the thread that locked has to
    /// unlock.
    type Held;

    /// The lock's name in the literature, as benchmarks print it.
    const NAME: &'static str;

    platform::os_only! {
        /// A free lock.
        const INIT: Self;

        /// Makes a free lock.
        fn new() -> Self
        where
            Self: Sized,
        {
            Self::INIT
        }
    }

    platform::twins_only! {
        /// Makes a free lock: twins have no constants with atomics in them.
        fn new() -> Self
        where
            Self: Sized;
    }

    /// Waits until the lock is this caller's.
    fn lock(&self) -> Self::Held;

    /// Takes the lock if that needs no waiting. A free lock without waiters is taken.
    fn try_lock(&self) -> Option<Self::Held>;

    /// Gives the lock back.
    ///
    /// # Safety
    /// The caller holds this lock, and `held` is what the lock returned when it was taken.
    unsafe fn unlock(&self, held: Self::Held);

    /// Gives the lock back; returns whether a thread waits for it: a hint.
    ///
    /// # Safety
    /// As for [`unlock`](RawLock::unlock).
    #[inline]
    unsafe fn unlock_and_look(&self, held: Self::Held) -> bool {
        // SAFETY: the contract is the same.
        unsafe { self.unlock(held) };
        self.is_locked()
    }

    /// Returns whether a thread held the lock a moment ago.
    fn is_locked(&self) -> bool;
}

/// A lock that passes in the order of arrival.
///
/// ```
/// use manx::lock::{Fifo, Mcs, RawLock};
///
/// /// Whether another caller came to stand in line during `run`.
/// fn one_came<L: Fifo>(lock: &L, run: impl FnOnce()) -> bool {
///     let before = lock.last_in_line();
///     run();
///     lock.last_in_line() != before
/// }
/// assert!(!one_came(&Mcs::new(), || ()));
/// ```
///
/// # Safety
/// If one caller stands in line before another one calls, the first gets the lock first.
pub unsafe trait Fifo: RawLock {
    /// Something that stands for the last one in line, and differs once another one stands behind
    /// it. To compare; its value means nothing.
    fn last_in_line(&self) -> usize;
}

/// Makes locks known to `lock_api`, which the calling package depends on: each is then a
/// [`::lock_api::RawMutex`], and has a default. In brackets are the parameters of the type. On the
/// machine only: twins have no constants of locks.
///
/// ```
/// use manx::lock::{Mcs, QueueHeld, RawLock};
///
/// struct Queued(Mcs);
///
/// // SAFETY: the lock is the one inside.
/// unsafe impl RawLock for Queued {
///     type Held = QueueHeld;
///     const NAME: &'static str = "queued";
///     const INIT: Self = Queued(Mcs::INIT);
///     fn lock(&self) -> QueueHeld {
///         self.0.lock()
///     }
///     fn try_lock(&self) -> Option<QueueHeld> {
///         self.0.try_lock()
///     }
///     unsafe fn unlock(&self, held: QueueHeld) {
///         // SAFETY: the contract is the same.
///         unsafe { self.0.unlock(held) }
///     }
///     fn is_locked(&self) -> bool {
///         self.0.is_locked()
///     }
/// }
///
/// manx::for_lock_api! {
///     [] Queued;
/// }
/// static COUNT: lock_api::Mutex<Queued, u32> = lock_api::Mutex::new(0);
/// *COUNT.lock() += 1;
/// ```
#[macro_export]
macro_rules! for_lock_api {
    ($([$($parameters:tt)*] $lock:ty;)*) => {$(
        // SAFETY: `RawLock` promises the same: exclusion, the order of memory, and that a lock may
        // be moved or dropped while held. No operation unwinds.
        unsafe impl<$($parameters)*> ::lock_api::RawMutex for $lock {
            #[allow(clippy::declare_interior_mutable_const)]
            const INIT: Self = <Self as $crate::lock::RawLock>::INIT;
            type Guard = <Self as $crate::lock::RawLock>::Held;

            #[inline]
            fn lock(&self) -> Self::Guard {
                $crate::lock::RawLock::lock(self)
            }

            #[inline]
            fn try_lock(&self) -> Option<Self::Guard> {
                $crate::lock::RawLock::try_lock(self)
            }

            #[inline]
            unsafe fn unlock(&self, held: Self::Guard) {
                // SAFETY: the contract is the same.
                unsafe { $crate::lock::RawLock::unlock(self, held) }
            }

            #[inline]
            fn is_locked(&self) -> bool {
                $crate::lock::RawLock::is_locked(self)
            }
        }

        impl<$($parameters)*> Default for $lock {
            fn default() -> Self {
                <Self as $crate::lock::RawLock>::INIT
            }
        }
    )*};
}
