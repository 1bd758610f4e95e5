//! A range that is held for as long as its guard lives, and what can be done with it meanwhile: the
//! range can be cut in two, made smaller, shared, or made exclusive.
//!
//! Each of these changes first acquires the new range or access, then releases the old one. So at
//! no moment does the range belong to another holder, and a change that fails leaves everything as
//! it was. Only an upgrade may have to wait; the other changes ask for a part of what the guard
//! holds, and nothing but the guard's own range can be in the way.

use super::error::{InvalidRange, LockError};
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::raw::Access;
use super::request::{NO_TAG, Request};
use super::slot::{self, Held};
use super::span::{IntoSpan, Span};
use platform::futex::Deadline;
use std::fmt;
use std::mem;
use std::slice;

/// A held range of a [`RangeLock`]. Dropping the guard releases the range, on any thread.
///
/// ```
/// use manx::range::{Access, RangeLock};
///
/// let lock: RangeLock<u32> = RangeLock::new();
/// let both = lock.lock(0..100)?;
/// let (low, high) = both.split_at(40)?;
/// std::thread::scope(|scope| scope.spawn(move || drop(low)).join().unwrap());
/// let high = high.shrink(50..100)?.downgrade()?;
/// assert_eq!(high.span().to_string(), "50..100");
/// assert_eq!(high.access(), Access::Shared);
/// assert!(lock.try_lock(0..50).is_ok() && lock.try_lock_shared(0..100).is_ok());
/// let high = high.upgrade()?;
/// assert!(lock.try_lock_shared(50..51).is_err());
/// # drop(high);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "a range is held as long as its guard lives"]
pub struct RangeGuard<'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    held: Held<K>,
}

/// A change of a guard that could not be made, and the guard, which holds what it held.
///
/// ```
/// use manx::range::{InvalidRange, LockError, RangeLock};
///
/// let file: RangeLock<u64> = RangeLock::new();
/// let unchanged = file.lock(0..10)?.split_at(10).unwrap_err();
/// assert_eq!(unchanged.error, LockError::InvalidRange(InvalidRange::Empty));
/// // It holds what it held.
/// assert!(unchanged.guard.split_at(5).is_ok());
/// # Ok::<(), LockError>(())
/// ```
pub struct Unchanged<G> {
    /// The guard, which holds what it held before.
    pub guard: G,
    /// Why the change could not be made.
    pub error: LockError,
}

impl<G> fmt::Debug for Unchanged<G> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Unchanged").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<G> fmt::Display for Unchanged<G> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(to)
    }
}

impl<G> std::error::Error for Unchanged<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The guard is dropped.
impl<G> From<Unchanged<G>> for LockError {
    fn from(unchanged: Unchanged<G>) -> LockError {
        unchanged.error
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// Takes the range. Waits until no other holder has a key of it.
    ///
    /// A thread that has a range and waits for another one can end in a deadlock with a thread that
    /// does it the other way round. It is safe to lock always in the same order, or to ask for all
    /// at once ([`RangeLock::lock_many`]). A lock can also detect such circles
    /// ([`Options::detecting_deadlocks`](super::Options::detecting_deadlocks)). A guard counts for
    /// the thread that locked it, or for the [`task`](super::task()) that this thread polled.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let head = file.lock(0..4096)?;
    /// let rest = file.lock(4096..)?;
    /// assert!(file.try_lock(4096..4097).is_err());
    /// # drop((head, rest));
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// - [`LockError::InvalidRange`] if the range has no keys.
    /// - [`LockError::TooMany`] if the lock holds as many ranges as it may
    ///   ([`Options::spill_max`](super::Options::spill_max)).
    /// - [`LockError::Deadlock`] if the lock looks for deadlocks, and this wait would make one.
    #[inline]
    pub fn lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Shares the range. Waits until no holder has a key of it for itself.
    ///
    /// ```
    /// use manx::range::RangeLock;
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let readers = (file.lock_shared(0..100)?, file.lock_shared(50..150)?);
    /// assert!(file.try_lock(99..101).is_err());
    /// # drop(readers);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    #[inline]
    pub fn lock_shared<R: IntoSpan<K>>(
        &self,
        range: R,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_as(range.into_span()?, Access::Shared)
    }

    /// Takes the range if that needs no waiting.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let head = file.try_lock(0..10)?;
    /// assert_eq!(file.try_lock(9..20).err(), Some(LockError::WouldBlock));
    /// # drop(head);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::WouldBlock`]: a holder has a key of it, or a waiter wants one and may not be
    /// overtaken any more. As [`RangeLock::lock`] beside that.
    #[inline]
    pub fn try_lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.try_lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Takes the range together with other holders that share it, if that needs no waiting.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let one = file.try_lock_shared(0..10)?;
    /// assert!(file.try_lock_shared(5..15).is_ok());
    /// assert!(file.try_lock(9..10).is_err());
    /// # drop(one);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    #[inline]
    pub fn try_lock_shared<R: IntoSpan<K>>(
        &self,
        range: R,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.try_lock_as(range.into_span()?, Access::Shared)
    }

    /// As [`RangeLock::lock`] or [`RangeLock::lock_shared`]: the access is a value.
    ///
    /// ```
    /// use manx::range::{Access, RangeLock, Span};
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let access = |writes: bool| if writes { Access::Exclusive } else { Access::Shared };
    /// let reader = file.lock_as(Span::all(), access(false))?;
    /// assert!(file.try_lock_as(Span::point(7), access(true)).is_err());
    /// # drop(reader);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    #[inline]
    pub fn lock_as(
        &self,
        span: Span<K>,
        access: Access,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(span, access, || None)
    }

    /// As [`RangeLock::lock_as`], but gives up at `deadline`, if there is one.
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    // Public only for the package `capi`, which has deadlines as clock times.
    #[doc(hidden)]
    #[inline]
    pub fn lock_by_deadline(
        &self,
        span: Span<K>,
        access: Access,
        deadline: Option<Deadline>,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(span, access, || deadline)
    }

    /// Locks the range. Calls `deadline` only if the range has to be waited for.
    #[inline(always)]
    pub(super) fn lock_within(
        &self,
        span: Span<K>,
        access: Access,
        deadline: impl FnOnce() -> Option<Deadline>,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.acquire(span, access, deadline)?;
        // SAFETY: `held` was acquired just now, and no guard owns it yet.
        Ok(unsafe { RangeGuard::new(self, held) })
    }

    /// As [`RangeLock::try_lock`] or [`RangeLock::try_lock_shared`].
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`] and [`RangeLock::try_lock_shared`].
    #[inline]
    pub fn try_lock_as(
        &self,
        span: Span<K>,
        access: Access,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.try_acquire(span, access)?;
        // SAFETY: `held` was acquired just now, and no guard owns it yet.
        Ok(unsafe { RangeGuard::new(self, held) })
    }
}

impl<'a, K: Key, const SHARDS: usize, const SLOTS: usize> RangeGuard<'a, K, SHARDS, SLOTS> {
    /// # Safety
    /// `held` is held, and is this guard's alone from now on.
    #[inline(always)]
    pub(super) unsafe fn new(lock: &'a RangeLock<K, SHARDS, SLOTS>, held: Held<K>) -> Self {
        RangeGuard { lock, held }
    }

    /// The range.
    pub fn span(&self) -> &Span<K> {
        // SAFETY: held as long as the guard lives.
        unsafe { self.held.span() }
    }

    /// Whether others may share the range.
    pub fn access(&self) -> Access {
        // SAFETY: held.
        unsafe { self.held.access() }
    }

    /// The lock to which the range belongs.
    pub fn lock(&self) -> &'a RangeLock<K, SHARDS, SLOTS> {
        self.lock
    }

    fn holder(&self) -> Holder {
        // SAFETY: held.
        slot::holder(unsafe { (*self.held.0).state() })
    }

    /// Acquires a part of what this guard holds, in addition: no other holder can be in the way.
    fn take_part(&self, span: &Span<K>, access: Access) -> Result<Self, LockError> {
        let own = [self.held];
        let request =
            Request { spans: slice::from_ref(span), access, holder: self.holder(), own: &own, tag: NO_TAG };
        // SAFETY: `held` was acquired just now, and no guard owns it yet.
        self.lock.take_part(&request).map(|held| unsafe { RangeGuard::new(self.lock, held) })
    }

    /// Cuts the range in two. Returns a guard of the keys before `key`, and a guard of the others.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let (low, high) = file.lock(0..100)?.split_at(60).map_err(|unchanged| unchanged.error)?;
    /// drop(low);
    /// assert!(file.try_lock(0..60).is_ok() && file.try_lock(60..61).is_err());
    /// # drop(high);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// One of the two would be empty, or the lock holds as many ranges as it may. The guard is in
    /// the error.
    pub fn split_at(self, key: K) -> Result<(Self, Self), Unchanged<Self>> {
        let outcome = match self.span().clone().split_at(key) {
            Ok((low, high)) => self
                .take_part(&low, self.access())
                .and_then(|low| Ok((low, self.take_part(&high, self.access())?))),
            Err(_) => Err(LockError::InvalidRange(InvalidRange::Empty)),
        };
        outcome.map_err(|error| Unchanged { guard: self, error })
    }

    /// Returns a guard of a part of the range, and releases the rest.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let part = file.lock(0..100)?.shrink(10..20).map_err(|unchanged| unchanged.error)?;
    /// assert!(file.try_lock(0..10).is_ok() && file.try_lock(15..16).is_err());
    /// # drop(part);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// `to` is no part of the range, or the lock holds as many ranges as it may. The guard is in
    /// the error.
    pub fn shrink<R: IntoSpan<K>>(self, to: R) -> Result<Self, Unchanged<Self>> {
        let outcome = to.into_span().map_err(LockError::from).and_then(|span| {
            if self.span().covers(&span) {
                self.take_part(&span, self.access())
            } else {
                Err(LockError::NotHeld)
            }
        });
        outcome.map_err(|error| Unchanged { guard: self, error })
    }

    /// Makes an exclusive guard a shared one of the same range: from now on other
    /// holders may share it. It is held all the time.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let writer = file.lock(0..100)?;
    /// // … write; then read on, beside others:
    /// let reader = writer.downgrade().map_err(|unchanged| unchanged.error)?;
    /// assert!(file.try_lock_shared(0..100).is_ok() && file.try_lock(0..1).is_err());
    /// # drop(reader);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// The lock holds as many ranges as it may. The guard is in the error.
    pub fn downgrade(self) -> Result<Self, Unchanged<Self>> {
        self.take_part(self.span(), Access::Shared).map_err(|error| Unchanged { guard: self, error })
    }

    /// Waits until no other holder shares the range, and returns a guard that has the range alone.
    ///
    /// ```
    /// let file: manx::range::RangeLock<u64> = manx::range::RangeLock::new();
    /// let reader = file.lock_shared(0..100)?;
    /// // … read; no other holder writes before this one does:
    /// let writer = reader.upgrade().map_err(|unchanged| unchanged.error)?;
    /// assert!(file.try_lock_shared(0..1).is_err());
    /// # drop(writer);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::UpgradeDeadlock`] if another holder that shares the range waits for the same; a
    /// lock that detects circles returns [`LockError::Deadlock`] in its place. Also the other
    /// errors of [`RangeLock::lock`]. The guard is in the error.
    pub fn upgrade(self) -> Result<Self, Unchanged<Self>> {
        self.upgrade_by_deadline(None)
    }

    /// As [`RangeGuard::upgrade`], but gives up at `deadline`, if there is one. All upgrades end
    /// here.
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`RangeGuard::upgrade`]. The guard is in the error.
    // Public only for the package `capi`, which has deadlines as clock times.
    #[doc(hidden)]
    pub fn upgrade_by_deadline(self, deadline: Option<Deadline>) -> Result<Self, Unchanged<Self>> {
        let own = [self.held];
        let spans = slice::from_ref(self.span());
        let request =
            Request { spans, access: Access::Exclusive, holder: self.holder(), own: &own, tag: NO_TAG };
        // `false`: no try was made yet.
        match self.lock.lock_request(&request, deadline, false) {
            // The old hold goes with `self`, after the new one is there.
            // SAFETY: `held` was acquired just now, and no guard owns it yet.
            Ok(held) => Ok(unsafe { RangeGuard::new(self.lock, held) }),
            Err(error) => Err(Unchanged { guard: self, error }),
        }
    }

    /// Returns the guard as a pointer, for callers that cannot keep a guard, such as programs in C.
    /// The range is held until [`RangeGuard::from_raw`] makes it a guard again. It is not null, and
    /// nothing may be read through it.
    ///
    /// ```
    /// use manx::range::{RangeGuard, RangeLock};
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let raw = lock.lock(0..10)?.into_raw();
    /// assert!(lock.try_lock(9..10).is_err());
    /// // SAFETY: the lock's own guard was made into this pointer, once.
    /// drop(unsafe { RangeGuard::from_raw(&lock, raw) });
    /// assert!(lock.try_lock(9..10).is_ok());
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    #[inline]
    pub fn into_raw(self) -> *const () {
        let raw = self.held.0.cast();
        mem::forget(self);
        raw
    }

    /// Makes a guard of the pointer that [`RangeGuard::into_raw`] returned. Dropping the guard
    /// gives the range back.
    ///
    /// # Safety
    /// `raw` is what [`RangeGuard::into_raw`] of a guard of this lock returned. Only one guard that
    /// is made of it may be dropped or changed, and only when no other one exists any more. Keep
    /// the others in a [`mem::ManuallyDrop`], and only read through them.
    #[inline]
    pub unsafe fn from_raw(lock: &'a RangeLock<K, SHARDS, SLOTS>, raw: *const ()) -> Self {
        // SAFETY: the caller's promise: the range is held, and it is the one guard of it that will
        // release it.
        unsafe { RangeGuard::new(lock, Held(raw.cast())) }
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for RangeGuard<'_, K, SHARDS, SLOTS> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held by the guard, which is gone.
        unsafe { self.lock.release(self.held) };
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> fmt::Debug for RangeGuard<'_, K, SHARDS, SLOTS> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RangeGuard")
            .field("span", self.span())
            .field("access", &self.access())
            .finish_non_exhaustive()
    }
}
