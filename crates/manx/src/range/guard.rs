//! A range that is held for as long as its guard lives, and what can be done with it meanwhile: cut
//! in two, made smaller, shared, or had alone.
//!
//! Each of these first takes what it is to become. Nothing can be in the way of that but the
//! guard's own range. Then it releases what it was. So at no moment does the range belong to
//! another holder, and a change that fails leaves everything as it was.

use super::error::LockError;
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::raw::Access;
use super::request::Request;
use super::slot::{self, Held};
use super::span::Span;
use super::table::{How, Refused};
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

// SAFETY: releasing is a step on an atomic word and, if a waiter waits, work under the wait queue's
// mutex. Both may be done on any thread.
unsafe impl<K: Key + Send + Sync, const SHARDS: usize, const SLOTS: usize> Send
    for RangeGuard<'_, K, SHARDS, SLOTS>
{
}
// SAFETY: what a shared guard gives access to is the span, which no thread changes.
unsafe impl<K: Key + Send + Sync, const SHARDS: usize, const SLOTS: usize> Sync
    for RangeGuard<'_, K, SHARDS, SLOTS>
{
}

/// A change of a guard that could not be made, and the guard, which holds what it held.
pub struct Unchanged<G> {
    /// What it holds still.
    pub guard: G,
    /// What was in the way.
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

impl<G> std::error::Error for Unchanged<G> {}

/// The guard is dropped.
impl<G> From<Unchanged<G>> for LockError {
    fn from(unchanged: Unchanged<G>) -> LockError {
        unchanged.error
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

    /// Whether others may share it.
    pub fn access(&self) -> Access {
        // SAFETY: held.
        unsafe { self.held.access() }
    }

    /// The lock that it is a range of.
    pub fn lock(&self) -> &'a RangeLock<K, SHARDS, SLOTS> {
        self.lock
    }

    fn holder(&self) -> Holder {
        // SAFETY: held.
        slot::holder(unsafe { (*self.held.0).state() })
    }

    /// Takes a part of what is held, beside that: nothing else is in the way.
    fn take_part(&self, span: &Span<K>, access: Access) -> Result<Self, LockError> {
        let own = [self.held];
        let request =
            Request { spans: slice::from_ref(span), access, holder: self.holder(), own: &own, tag: 0 };
        // Those starving wait for what is held, so that none of them is overtaken.
        match self.lock.table.take(&request, How { closed: true, ..How::default() }) {
            // SAFETY: just taken.
            Ok(held) => Ok(unsafe { RangeGuard::new(self.lock, held) }),
            Err(Refused::Full) => Err(self.lock.too_many()),
            Err(_) => Err(LockError::WouldBlock),
        }
    }

    /// Two guards: of what is before `key`, and of what is not.
    ///
    /// # Errors
    /// One of the two would be empty, or the lock holds as many ranges as it may. The guard is in
    /// the error.
    pub fn split_at(self, key: K) -> Result<(Self, Self), Unchanged<Self>> {
        let outcome = match self.span().clone().split_at(key) {
            Ok((low, high)) => self
                .take_part(&low, self.access())
                .and_then(|low| Ok((low, self.take_part(&high, self.access())?))),
            Err(_) => Err(LockError::InvalidRange(super::InvalidRange::Empty)),
        };
        outcome.map_err(|error| Unchanged { guard: self, error })
    }

    /// A guard of a part of the range; the rest is given back.
    ///
    /// # Errors
    /// It is no part of the range, or the lock holds as many ranges as it may. The guard is in the
    /// error.
    pub fn shrink<R>(self, to: R) -> Result<Self, Unchanged<Self>>
    where
        R: TryInto<Span<K>, Error: Into<super::InvalidRange>>,
    {
        let outcome = super::lock::span(to).and_then(|span| {
            if self.span().contains(&span) {
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
    /// # Errors
    /// The lock holds as many ranges as it may. The guard is in the error.
    pub fn downgrade(self) -> Result<Self, Unchanged<Self>> {
        self.take_part(self.span(), Access::Shared).map_err(|error| Unchanged { guard: self, error })
    }

    /// Waits until no other holder shares the range, and returns a guard that has the range alone.
    ///
    /// # Errors
    /// [`LockError::UpgradeDeadlock`] if another holder that shares the range waits for the same; a
    /// lock that detects circles returns [`LockError::Deadlock`] in its place. Also the other
    /// errors of [`RangeLock::lock`]. The guard is in the error.
    pub fn upgrade(self) -> Result<Self, Unchanged<Self>> {
        self.upgrade_as(None)
    }

    /// As [`RangeGuard::upgrade`], until `deadline` if there is one.
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`RangeGuard::upgrade`]. The guard is in the error.
    pub fn upgrade_as(self, deadline: Option<Deadline>) -> Result<Self, Unchanged<Self>> {
        let own = [self.held];
        let spans = slice::from_ref(self.span());
        let request = Request { spans, access: Access::Exclusive, holder: self.holder(), own: &own, tag: 0 };
        match self.lock.lock_request(&request, deadline, false) {
            // SAFETY: just acquired.
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

    /// The guard that was made into a pointer.
    ///
    /// # Safety
    /// `raw` is what [`RangeGuard::into_raw`] of a guard of this lock returned. Of all guards that
    /// are made of it, one is dropped or changed; while others are there (in a
    /// [`mem::ManuallyDrop`], to be looked at), none was yet.
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
