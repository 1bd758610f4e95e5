//! Several ranges at once: all of them or none. No caller holds some of them while it waits.
//!
//! A thread looks in all ranges for what is in the way, under the words of all their shards, and
//! takes the ranges under these same words. A waiter has none of the ranges while it waits. So two
//! threads that want the same ranges in different orders cannot get stuck. The ranges of a set do
//! not overlap, which is made sure when the set is made: either that is an error, or they are
//! merged.

use super::error::{InvalidRange, LockError};
use super::holder::Holder;
use super::key::Key;
use super::lock::RangeLock;
use super::raw::Access;
use super::request::{NO_TAG, Request};
use super::slot::Held;
use super::span::Span;
use platform::futex::Deadline;

/// One or more ranges, in their order. No two of them overlap.
///
/// ```
/// use manx::range::{InvalidRange, Span, SpanSet};
///
/// let spans = || [Span::new(10, 20).unwrap(), Span::new(0, 5).unwrap(), Span::new(15, 30).unwrap()];
/// assert_eq!(SpanSet::disjoint(spans()), Err(InvalidRange::Overlapping));
/// let merged = SpanSet::merged(spans())?;
/// assert_eq!(merged.spans(), [Span::new(0, 5)?, Span::new(10, 30)?]);
/// # Ok::<(), InvalidRange>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanSet<K>(Vec<Span<K>>);

impl<K: Key> SpanSet<K> {
    /// A set of these.
    ///
    /// ```
    /// use manx::range::{InvalidRange, Span, SpanSet};
    ///
    /// let set = SpanSet::disjoint([Span::new(20, 30)?, Span::new(0, 10)?])?;
    /// assert_eq!(set.spans(), [Span::new(0, 10)?, Span::new(20, 30)?]);
    /// let overlapping = SpanSet::disjoint([Span::new(0, 10)?, Span::new(9, 12)?]);
    /// assert_eq!(overlapping, Err(InvalidRange::Overlapping));
    /// # Ok::<(), InvalidRange>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidRange::Overlapping`], or [`InvalidRange::Empty`] if there are none.
    pub fn disjoint(spans: impl IntoIterator<Item = Span<K>>) -> Result<SpanSet<K>, InvalidRange> {
        let spans = SpanSet::sorted(spans)?;
        match spans.windows(2).any(|pair| pair[0].overlaps(&pair[1])) {
            true => Err(InvalidRange::Overlapping),
            false => Ok(SpanSet(spans)),
        }
    }

    /// Makes a set of these ranges. Ranges that overlap or touch become one.
    ///
    /// ```
    /// use manx::range::{Span, SpanSet};
    ///
    /// let set = SpanSet::merged([Span::new(0, 10)?, Span::new(9, 12)?, Span::new(12, 20)?])?;
    /// assert_eq!(set.spans(), [Span::new(0, 20)?]);
    /// # Ok::<(), manx::range::InvalidRange>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidRange::Empty`] if there are none.
    pub fn merged(spans: impl IntoIterator<Item = Span<K>>) -> Result<SpanSet<K>, InvalidRange> {
        let mut merged: Vec<Span<K>> = Vec::new();
        for span in SpanSet::sorted(spans)? {
            match merged.last_mut() {
                Some(last) if last.overlaps(&span) || last.end() == span.start() => {
                    *last = std::mem::replace(last, Span::all()).hull(span);
                }
                _ => merged.push(span),
            }
        }
        Ok(SpanSet(merged))
    }

    fn sorted(spans: impl IntoIterator<Item = Span<K>>) -> Result<Vec<Span<K>>, InvalidRange> {
        let mut spans: Vec<Span<K>> = spans.into_iter().collect();
        spans.sort_by(Span::compare);
        if spans.is_empty() { Err(InvalidRange::Empty) } else { Ok(spans) }
    }

    /// The ranges, in order.
    pub fn spans(&self) -> &[Span<K>] {
        &self.0
    }
}

/// Ranges that are held together; dropping it gives them back.
///
/// ```
/// use manx::range::{RangeLock, Span, SpanSet};
///
/// let accounts: RangeLock<u32> = RangeLock::new();
/// let both = accounts.lock_many(SpanSet::disjoint([Span::point(7), Span::point(3)])?)?;
/// // In the order of keys.
/// assert_eq!(both.spans(), [Span::point(3), Span::point(7)]);
/// # Ok::<(), manx::range::LockError>(())
/// ```
#[must_use = "ranges are held as long as their guard lives"]
#[derive(Debug)]
pub struct ManyGuard<'a, K: Key, const SHARDS: usize = 64, const SLOTS: usize = 16> {
    lock: &'a RangeLock<K, SHARDS, SLOTS>,
    held: Held<K>,
    set: SpanSet<K>,
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> ManyGuard<'_, K, SHARDS, SLOTS> {
    /// The ranges, in order.
    pub fn spans(&self) -> &[Span<K>] {
        self.set.spans()
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> Drop for ManyGuard<'_, K, SHARDS, SLOTS> {
    fn drop(&mut self) {
        // SAFETY: held by the guard, which is gone.
        unsafe { self.lock.release(self.held) };
    }
}

impl<K: Key, const SHARDS: usize, const SLOTS: usize> RangeLock<K, SHARDS, SLOTS> {
    /// Takes all of the ranges. Waits until no other holder has a key of any of them.
    ///
    /// ```
    /// use manx::range::{RangeLock, Span, SpanSet};
    ///
    /// let accounts: RangeLock<u32> = RangeLock::new();
    /// let set = SpanSet::disjoint([Span::point(7), Span::point(3)])?;
    /// let both = accounts.lock_many(set)?;
    /// assert!(accounts.try_lock(3..4).is_err() && accounts.try_lock(7..8).is_err());
    /// assert!(accounts.try_lock(4..7).is_ok());
    /// # drop(both);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_many(&self, set: SpanSet<K>) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_many_as(set, Access::Exclusive)
    }

    /// As [`RangeLock::lock_many`], alone or together with other holders that share: the access is
    /// a value.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_many_as(
        &self,
        set: SpanSet<K>,
        access: Access,
    ) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        self.lock_many_by_deadline(set, access, None)
    }

    /// As [`RangeLock::lock_many_as`], until `deadline` if there is one.
    ///
    /// # Errors
    /// [`LockError::TimedOut`]; and as [`RangeLock::lock`].
    // For the package `capi`, whose deadlines are times of a clock.
    #[doc(hidden)]
    pub fn lock_many_by_deadline(
        &self,
        set: SpanSet<K>,
        access: Access,
        deadline: Option<Deadline>,
    ) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.lock_request(&whole(&set, access), deadline, false)?;
        Ok(ManyGuard { lock: self, held, set })
    }

    /// Takes all of the ranges, if that needs no waiting.
    ///
    /// ```
    /// use manx::range::{Access, RangeLock, Span, SpanSet};
    ///
    /// let accounts: RangeLock<u32> = RangeLock::new();
    /// let seven = accounts.lock(7..8)?;
    /// let set = SpanSet::disjoint([Span::point(3), Span::point(7)])?;
    /// assert!(accounts.try_lock_many(set, Access::Exclusive).is_err());
    /// assert!(accounts.try_lock(3..4).is_ok(), "all or none");
    /// # drop(seven);
    /// # Ok::<(), manx::range::LockError>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_many(
        &self,
        set: SpanSet<K>,
        access: Access,
    ) -> Result<ManyGuard<'_, K, SHARDS, SLOTS>, LockError> {
        let held = self.try_request(&whole(&set, access))?;
        Ok(ManyGuard { lock: self, held, set })
    }
}

fn whole<K>(set: &SpanSet<K>, access: Access) -> Request<'_, K> {
    Request { spans: &set.0, access, holder: Holder::current(), own: &[], tag: NO_TAG }
}
