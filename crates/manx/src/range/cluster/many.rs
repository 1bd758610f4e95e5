//! Several ranges at once on several machines: all of them or none. They are one request, with one
//! place in the order of arrival, so no waiter holds some of them while it waits for the others.

use super::error::Error;
use super::lock::{Manner, RangeGuard, RangeLock};
use super::portable::{Portable, encoded};
use super::request::Part;
use crate::range::many::SpanSet;
use crate::range::raw::Access;
use crate::range::span::Span;
use std::time::{Duration, Instant};

/// Ranges that are held together; dropping it gives them back.
pub type ManyGuard<K> = RangeGuard<K, SpanSet<K>>;

/// The set as it stands in a request.
pub(super) fn parts<K: Portable>(set: &SpanSet<K>, access: Access) -> Vec<Part> {
    set.spans().iter().map(|span| (encoded(span), access)).collect()
}

impl<K: Portable> RangeLock<K> {
    /// Takes all of the ranges. Waits until no other holder, on any machine, has a key of any of
    /// them.
    ///
    /// ```no_run
    /// use manx::range::SpanSet;
    /// use manx::range::cluster::{Error, RangeLock};
    ///
    /// fn transfer(accounts: &RangeLock<u64>, from: u64, to: u64) -> Result<(), Error> {
    ///     // In whatever order others want them.
    ///     let both = accounts.lock_many(SpanSet::merged([from, to].map(manx::range::Span::point))?)?;
    ///     println!("write with token {}", both.token());
    ///     both.unlock()
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_many(&self, set: SpanSet<K>) -> Result<ManyGuard<K>, Error> {
        self.lock_many_as(set, Access::Exclusive)
    }

    /// As [`RangeLock::lock_many`], alone or together with other holders that share: the access is
    /// a value.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_many_as(&self, set: SpanSet<K>, access: Access) -> Result<ManyGuard<K>, Error> {
        self.many(set, access, Manner::WAITS)
    }

    /// Takes all of the ranges, if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_many(&self, set: SpanSet<K>, access: Access) -> Result<ManyGuard<K>, Error> {
        self.many(set, access, Manner::TRIES)
    }

    /// As [`RangeLock::lock_many_as`], and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_many_timeout(
        &self,
        set: SpanSet<K>,
        access: Access,
        timeout: Duration,
    ) -> Result<ManyGuard<K>, Error> {
        self.many(set, access, Manner::within(timeout))
    }

    /// As [`RangeLock::lock_many_as`], and gives up at `end`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_many_until(
        &self,
        set: SpanSet<K>,
        access: Access,
        end: Instant,
    ) -> Result<ManyGuard<K>, Error> {
        self.many(set, access, Manner::until(end))
    }

    /// As [`RangeLock::lock_many_as`], for a task. See [`RangeLock::lock_async`].
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub async fn lock_many_async(&self, set: SpanSet<K>, access: Access) -> Result<ManyGuard<K>, Error> {
        self.guard_async(parts(&set, access), set, access).await
    }

    fn many(&self, set: SpanSet<K>, access: Access, manner: Manner) -> Result<ManyGuard<K>, Error> {
        self.guard_parts(parts(&set, access), set, access, manner)
    }
}

impl<K: Portable> ManyGuard<K> {
    /// The ranges, in order.
    pub fn spans(&self) -> &[Span<K>] {
        self.what.spans()
    }
}
