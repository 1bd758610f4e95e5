//! What every lock of this room can do, so that any of them can stand under another and in every benchmark.
//!
//! A lock protects nothing by itself and knows nothing of guards. [`RawLock::lock`] returns what the holder
//! has to keep until it unlocks ([`RawLock::Held`]): nothing for most, the place in the queue for those that
//! queue. Guards move, so whatever others point to is never in there, only a pointer to it.
//!
//! On the machine each of them is also a [`::lock_api::RawMutex`], so `lock_api::Mutex<Ticket, T>` is a mutex
//! around a `T` that passes by tickets. There is no poisoning: a guard that a panic drops unlocks, and whoever
//! comes next finds the data as they were left.

/// A lock, without what it protects.
///
/// ```
/// use manx::lock::{Mcs, RawLock, Tas};
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
/// twice(&Tas::new(), || ());
/// twice(&Mcs::new(), || ());
/// assert_eq!(<Mcs as RawLock>::NAME, "mcs");
/// ```
///
/// # Safety
/// Between a return of [`lock`](RawLock::lock) or a success of [`try_lock`](RawLock::try_lock) and the
/// [`unlock`](RawLock::unlock) with what they returned, no other call may return so. What was written before
/// an unlock is visible after the next such return. A lock may be moved or dropped while it is held,
/// if nobody waits for it.
pub unsafe trait RawLock: Send + Sync {
    /// What the holder keeps until it unlocks. If it is not [`Send`], the thread that locked has to unlock.
    type Held;

    /// The lock's name in the literature, as benchmarks print it.
    const NAME: &'static str;

    /// A lock that is free. Each type also has a function of this name that is `const`.
    fn new() -> Self
    where
        Self: Sized;

    /// Waits until the lock is this caller's.
    fn lock(&self) -> Self::Held;

    /// Takes the lock if that needs no waiting. A lock that is free and for which nobody waits is taken.
    fn try_lock(&self) -> Option<Self::Held>;

    /// Gives the lock back.
    ///
    /// # Safety
    /// The caller holds this lock, and `held` is what the lock returned when it was taken.
    unsafe fn unlock(&self, held: Self::Held);

    /// Whether somebody held the lock a moment ago.
    fn is_locked(&self) -> bool;
}

/// A lock that passes in the order of arrival.
///
/// # Safety
/// Of two callers, one of which stands in line before the other one calls, the first gets the lock first.
pub unsafe trait Fifo: RawLock {
    /// Something that stands for the last one in line, and differs once another one stands behind it. To
    /// compare; its value means nothing.
    ///
    /// ```
    /// use manx::lock::{Fifo, RawLock, Ticket};
    ///
    /// let lock = Ticket::new();
    /// let before = lock.last_in_line();
    /// let held = lock.lock();
    /// assert_ne!(lock.last_in_line(), before);
    /// // SAFETY: held by this thread.
    /// unsafe { lock.unlock(held) };
    /// ```
    fn last_in_line(&self) -> usize;
}

platform::os_only! {
    /// Makes locks known to `lock_api`.
    macro_rules! for_lock_api {
        ($([$($parameters:tt)*] $lock:ty;)*) => {$(
            // SAFETY: `RawLock` promises the same: exclusion, the order of memory, and that a lock may be
            // moved or dropped while held. No operation unwinds.
            unsafe impl<$($parameters)*> ::lock_api::RawMutex for $lock {
                #[allow(clippy::declare_interior_mutable_const)]
                const INIT: Self = <$lock>::new();
                type Guard = <Self as RawLock>::Held;

                #[inline]
                fn lock(&self) -> Self::Guard {
                    RawLock::lock(self)
                }

                #[inline]
                fn try_lock(&self) -> Option<Self::Guard> {
                    RawLock::try_lock(self)
                }

                #[inline]
                unsafe fn unlock(&self, held: Self::Guard) {
                    // SAFETY: the contract is the same.
                    unsafe { RawLock::unlock(self, held) }
                }

                #[inline]
                fn is_locked(&self) -> bool {
                    RawLock::is_locked(self)
                }
            }

            impl<$($parameters)*> Default for $lock {
                fn default() -> Self {
                    <$lock>::new()
                }
            }
        )*};
    }

    for_lock_api! {
        [] super::Tas;
        [] super::Ttas;
        [] super::Ticket;
        [] super::Mcs;
        [] super::McsPark;
        [] super::FutexMutex;
        [] super::MutableLock;
        [const BIG: u32] super::Shfl<BIG>;
        [const LOCAL: u32] super::Cna<LOCAL>;
        [] super::Reorderable<super::Ticket>;
        [] super::Reorderable<super::Mcs>;
        [] super::Reorderable<super::McsPark>;
        [] super::Reorderable<super::FutexMutex>;
        [] super::Reorderable<super::Shfl>;
        [] super::Reorderable<super::Cna>;
        [] super::Asl<super::Ticket>;
        [] super::Asl<super::Mcs>;
        [] super::Asl<super::McsPark>;
        [] super::Asl<super::FutexMutex>;
        [] super::Asl<super::Shfl>;
        [] super::Asl<super::Cna>;
    }
}
