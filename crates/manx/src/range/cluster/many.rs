//! Several ranges at once on several machines: all of them or none. They are one request, with one
//! place in the order of arrival, so no waiter holds some of them while it waits for the others.

use super::error::Error;
use super::lock::{Held, Manner, RangeLock};
use super::portable::{Portable, encoded};
use super::request::Part;
use crate::range::many::SpanSet;
use crate::range::raw::Access;
use crate::range::span::Span;
use std::fmt;
use std::time::{Duration, Instant};

/// Ranges that are held together; dropping it gives them back.
#[must_use = "the ranges are given back when this is dropped"]
pub struct ManyGuard<K: Portable> {
    held: Held<K>,
    set: SpanSet<K>,
    access: Access,
}

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
        let held = self.hold_async(parts(&set, access)).await?;
        Ok(ManyGuard { held, set, access })
    }

    fn many(&self, set: SpanSet<K>, access: Access, manner: Manner) -> Result<ManyGuard<K>, Error> {
        let held = self.shared.run(self.hold(parts(&set, access), manner))?;
        Ok(ManyGuard { held, set, access })
    }
}

impl<K: Portable> ManyGuard<K> {
    /// The ranges, in order.
    pub fn spans(&self) -> &[Span<K>] {
        self.set.spans()
    }

    /// Whether they are shared.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The fencing token: see [`RangeGuard::token`](super::RangeGuard::token).
    pub fn token(&self) -> u64 {
        self.held.token()
    }

    /// Whether the session is lost: then nothing is held any more.
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Gives the ranges back, as the drop does, and says whether that went well.
    ///
    /// # Errors
    /// [`Error::SessionLost`]: they had been given back before.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.held.leave()
    }

    /// As [`ManyGuard::unlock`], for a task. See
    /// [`RangeGuard::unlock_async`](super::RangeGuard::unlock_async).
    ///
    /// # Errors
    /// As [`ManyGuard::unlock`].
    pub async fn unlock_async(mut self) -> Result<(), Error> {
        self.held.leave_async().await
    }
}

impl<K: Portable> fmt::Debug for ManyGuard<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("ManyGuard");
        shown.field("spans", &self.spans()).field("access", &self.access).field("token", &self.token());
        shown.finish_non_exhaustive()
    }
}
