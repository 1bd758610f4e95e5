//! Waiting with a limit: for a duration, or until a point in time.
//!
//! A limit becomes a point of the monotonic clock once, and nothing that happens during the wait
//! prolongs it. It limits the wait and nothing else: a range that is free is taken however little
//! time there is. So with no time at all each of these is its `try_…` (but returns
//! [`LockError::TimedOut`]). A waiter that gives up leaves nothing behind and keeps what it held.

use super::error::LockError;
use super::guard::{RangeGuard, Unchanged};
use super::key::Key;
use super::lock::RangeLock;
use super::many::{ManyGuard, SpanSet};
use super::owner::Owner;
use super::raw::Access;
use super::span::IntoSpan;
use platform::futex::Deadline;
use std::time::{Duration, Instant};

/// Returns the deadline that is `timeout` from now.
fn after(timeout: Duration) -> Option<Deadline> {
    Some(Deadline::after(timeout))
}

/// Returns the deadline at `end`; now, if `end` is over.
fn at(end: Instant) -> Option<Deadline> {
    after(end.saturating_duration_since(Instant::now()))
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// As [`RangeLock::lock`], but waits no longer than `timeout`.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    /// use std::time::Duration;
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let head = file.lock_timeout(0..4096, Duration::from_secs(1))?;
    /// let late = file.lock_timeout(4000..5000, Duration::from_millis(1));
    /// assert_eq!(late.err(), Some(LockError::TimedOut));
    /// # drop(head);
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    #[inline]
    pub fn lock_timeout<R: IntoSpan<K>>(
        &self,
        range: R,
        timeout: Duration,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(range.into_span()?, Access::Exclusive, || after(timeout))
    }

    /// As [`RangeLock::lock`], but waits no longer than until `end`.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    /// use std::time::{Duration, Instant};
    ///
    /// // Both, or neither, by one point in time.
    /// let (from, to): (RangeLock<u64>, RangeLock<u64>) = (RangeLock::new(), RangeLock::new());
    /// let end = Instant::now() + Duration::from_millis(5);
    /// let both = (from.lock_until(0..10, end)?, to.lock_until(90..100, end)?);
    /// assert_eq!(to.lock_until(95.., end).err(), Some(LockError::TimedOut));
    /// # drop(both);
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    #[inline]
    pub fn lock_until<R: IntoSpan<K>>(
        &self,
        range: R,
        end: Instant,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(range.into_span()?, Access::Exclusive, || at(end))
    }

    /// As [`RangeLock::lock_shared`], but waits no longer than `timeout`.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    /// use std::time::Duration;
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let reader = file.lock_shared(0..100)?;
    /// let other = file.lock_shared_timeout(50..150, Duration::ZERO)?;
    /// assert_eq!(file.lock_timeout(90.., Duration::ZERO).err(), Some(LockError::TimedOut));
    /// # drop((reader, other));
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    #[inline]
    pub fn lock_shared_timeout<R: IntoSpan<K>>(
        &self,
        range: R,
        timeout: Duration,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(range.into_span()?, Access::Shared, || after(timeout))
    }

    /// As [`RangeLock::lock_shared`], but waits no longer than until `end`.
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    /// use std::time::{Duration, Instant};
    ///
    /// let file: RangeLock<u64> = RangeLock::new();
    /// let writer = file.lock(0..100)?;
    /// let end = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(file.lock_shared_until(99..200, end).err(), Some(LockError::TimedOut));
    /// drop(writer);
    /// assert!(file.lock_shared_until(99..200, end).is_ok(), "the time is over, but the range is free");
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    #[inline]
    pub fn lock_shared_until<R: IntoSpan<K>>(
        &self,
        range: R,
        end: Instant,
    ) -> Result<RangeGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_within(range.into_span()?, Access::Shared, || at(end))
    }

    /// Waits for all of the ranges, alone or together with other holders that share, no longer than
    /// `timeout`.
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    pub fn lock_many_timeout(
        &self,
        set: SpanSet<K>,
        access: Access,
        timeout: Duration,
    ) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_many_by_deadline(set, access, after(timeout))
    }

    /// Waits for all of the ranges, alone or together with other holders that share, no longer than
    /// until `end`.
    ///
    /// ```
    /// use manx::range::{Access, RangeLock, Span, SpanSet};
    /// use std::time::{Duration, Instant};
    ///
    /// let rows: RangeLock<u32> = RangeLock::new();
    /// let set = SpanSet::merged([Span::new(0, 10)?, Span::new(5, 20)?])?;
    /// let end = Instant::now() + Duration::from_secs(1);
    /// let reader = rows.lock_many_until(set.clone(), Access::Shared, end)?;
    /// let other = rows.lock_many_until(set, Access::Shared, end)?;
    /// # drop((reader, other));
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    pub fn lock_many_until(
        &self,
        set: SpanSet<K>,
        access: Access,
        end: Instant,
    ) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_many_by_deadline(set, access, at(end))
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeGuard<'_, K, SHARDS, SLOTS> {
    /// As [`RangeGuard::upgrade`], but waits no longer than `timeout`.
    ///
    /// ```
    /// use manx::range::{Access, LockError, RangeLock};
    /// use std::time::Duration;
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let (mine, other) = (lock.lock_shared(0..10)?, lock.lock_shared(5..6)?);
    /// let unchanged = mine.upgrade_timeout(Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(unchanged.error, LockError::TimedOut);
    /// drop(other);
    /// let mine = unchanged.guard.upgrade_timeout(Duration::from_millis(1))?;
    /// assert_eq!(mine.access(), Access::Exclusive);
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`RangeGuard::upgrade`]. The guard is in the error.
    pub fn upgrade_timeout(self, timeout: Duration) -> Result<Self, Unchanged<Self>> {
        self.upgrade_by_deadline(after(timeout))
    }

    /// As [`RangeGuard::upgrade`], but waits no longer than until `end`.
    ///
    /// ```
    /// use manx::range::RangeLock;
    /// use std::time::{Duration, Instant};
    ///
    /// let lock: RangeLock<u64> = RangeLock::new();
    /// let end = Instant::now() + Duration::from_secs(1);
    /// let held = lock.lock_shared_until(0..10, end)?.upgrade_until(end)?;
    /// assert!(lock.try_lock_shared(0..1).is_err());
    /// # drop(held);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`RangeGuard::upgrade`]. The guard is in the error.
    pub fn upgrade_until(self, end: Instant) -> Result<Self, Unchanged<Self>> {
        self.upgrade_by_deadline(at(end))
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Owner<'_, K, SHARDS, SLOTS> {
    /// As [`Owner::lock`], but waits no longer than `timeout`.
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`Owner::lock`]. What was held is held.
    pub fn lock_timeout<R: IntoSpan<K>>(&mut self, range: R, timeout: Duration) -> Result<(), LockError> {
        self.lock_by_deadline(range.into_span()?, Access::Exclusive, after(timeout))
    }

    /// As [`Owner::lock`], but waits no longer than until `end`: one for all that a transaction
    /// locks.
    ///
    /// ```
    /// use manx::range::RangeLock;
    /// use std::time::{Duration, Instant};
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let end = Instant::now() + Duration::from_secs(1);
    /// let mut transaction = table.owner();
    /// transaction.lock_shared_until(0..100, end)?;
    /// transaction.lock_until(10..20, end)?;
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`Owner::lock`]. What was held is held.
    pub fn lock_until<R: IntoSpan<K>>(&mut self, range: R, end: Instant) -> Result<(), LockError> {
        self.lock_by_deadline(range.into_span()?, Access::Exclusive, at(end))
    }

    /// As [`Owner::lock_shared`], but waits no longer than `timeout`.
    ///
    /// ```
    /// use manx::range::RangeLock;
    /// use std::time::Duration;
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let (mut one, mut other) = (table.owner(), table.owner());
    /// one.lock_shared_timeout(0..10, Duration::ZERO)?;
    /// other.lock_shared_timeout(5..15, Duration::ZERO)?;
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`Owner::lock_shared`]. What was held is held.
    pub fn lock_shared_timeout<R: IntoSpan<K>>(
        &mut self,
        range: R,
        timeout: Duration,
    ) -> Result<(), LockError> {
        self.lock_by_deadline(range.into_span()?, Access::Shared, after(timeout))
    }

    /// As [`Owner::lock_shared`], but waits no longer than until `end`. See [`Owner::lock_until`].
    ///
    /// ```
    /// use manx::range::{LockError, RangeLock};
    /// use std::time::Instant;
    ///
    /// let table: RangeLock<u64> = RangeLock::new();
    /// let (mut writer, mut reader) = (table.owner(), table.owner());
    /// writer.lock(0..10)?;
    /// assert_eq!(reader.lock_shared_until(0..1, Instant::now()), Err(LockError::TimedOut));
    /// # Ok::<(), LockError>(())
    /// ```
    ///
    /// # Errors
    /// [`LockError::TimedOut`], and as [`Owner::lock_shared`]. What was held is held.
    pub fn lock_shared_until<R: IntoSpan<K>>(&mut self, range: R, end: Instant) -> Result<(), LockError> {
        self.lock_by_deadline(range.into_span()?, Access::Shared, at(end))
    }
}
