//! A range lock for several machines, and its guards.

use super::error::{Error, Participant};
use super::portable::{Portable, encoded, shown};
use super::queue::{self, Change, Granted, Names};
use super::request::{Claim, Identity, Part, Request};
use super::rule::{judge, participant, written};
use super::session::{Session, Shared};
use crate::range::holder::Holder;
use crate::range::raw::Access;
use crate::range::span::{IntoSpan, Span};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lock of ranges of keys for processes on several machines: they wait for each other only if
/// their ranges overlap. Processes that give it the same name, on the same etcd, mean the same
/// lock; they must also agree on the type of its keys.
///
/// Waiters are served in the order of their arrival. Circles of waiters are found when they are
/// closed: the request that came last gets [`Error::Deadlock`].
///
/// ```no_run
/// use manx::range::cluster::{Error, Options, RangeLock, Session};
/// use std::time::Duration;
///
/// let session = Session::connect(Options::new(["127.0.0.1:2379"]))?;
/// let file: RangeLock<u64> = session.range_lock("files/17");
/// let head = file.lock(0..4096)?;
/// assert!(matches!(file.try_lock(4095..5000), Err(Error::WouldBlock)));
/// let tail = file.lock_timeout(4096.., Duration::from_secs(1))?;
/// head.unlock()?;
/// # drop(tail);
/// # Ok::<(), Error>(())
/// ```
pub struct RangeLock<K> {
    shared: Arc<Shared>,
    names: Names,
    keys: PhantomData<fn(K)>,
}

/// A range that is held until this is dropped. The drop waits until etcd has given the range back,
/// or the session is lost.
#[must_use = "the range is given back when this is dropped"]
pub struct RangeGuard<K: Portable> {
    lock: RangeLock<K>,
    span: Span<K>,
    access: Access,
    granted: Granted,
}

impl Session {
    /// The lock of this name.
    ///
    /// ```no_run
    /// # use manx::range::cluster::{Options, RangeLock, Session};
    /// # let session = Session::connect(Options::new(["127.0.0.1:2379"]))?;
    /// let rows: RangeLock<String> = session.range_lock("customers");
    /// let of_berlin = rows.lock_shared("berlin/".to_owned().."berlin0".to_owned())?;
    /// # drop(of_berlin);
    /// # Ok::<(), manx::range::cluster::Error>(())
    /// ```
    pub fn range_lock<K: Portable>(&self, name: &str) -> RangeLock<K> {
        RangeLock { shared: Arc::clone(self.shared()), names: Names::new(name), keys: PhantomData }
    }
}

impl<K: Portable> RangeLock<K> {
    /// Takes the range. Waits until no other holder, on any machine, has a key of it.
    ///
    /// # Errors
    /// [`Error::InvalidRange`]; [`Error::Deadlock`], also if the calling thread holds a guard that
    /// is in its own way; [`Error::SessionLost`], [`Error::Refused`] and [`Error::Foreign`].
    pub fn lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, false, None)
    }

    /// Shares the range. Waits until no other holder has a key of it for itself.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_shared<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Shared, false, None)
    }

    /// Takes the range if that needs no waiting for another holder. (It does wait for etcd.)
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; otherwise as [`RangeLock::lock`]. Meanwhile a `try_lock` of another
    /// process may fail, too.
    pub fn try_lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, true, None)
    }

    /// Shares the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_shared<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Shared, true, None)
    }

    /// Takes the range, and gives up after `timeout`. If etcd does not answer then, it returns as
    /// soon as etcd does, or when the session is lost.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; otherwise as [`RangeLock::lock`].
    pub fn lock_timeout<R: IntoSpan<K>>(&self, range: R, timeout: Duration) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, false, Instant::now().checked_add(timeout))
    }

    /// Shares the range, and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_shared_timeout<R: IntoSpan<K>>(
        &self,
        range: R,
        timeout: Duration,
    ) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Shared, false, Instant::now().checked_add(timeout))
    }

    /// All requests of the lock, of all machines, in the order of their arrival: held ranges and
    /// waiters at one moment.
    ///
    /// # Errors
    /// As [`RangeLock::lock`], beside deadlocks.
    pub fn dump(&self) -> Result<Vec<Entry>, Error> {
        let list = self.shared.run(queue::list(&self.shared.alive, &self.names))?;
        let entry = |request: &Request| Entry {
            owner: participant(request),
            ranges: written(request, |(span, access)| format!("{access:?} {}", shown::<K>(span))),
            place: request.place.unsigned_abs(),
            waits: !judge(&list, request).blockers.is_empty(),
        };
        Ok(list.iter().map(entry).collect())
    }

    /// Whether the session is lost: then nothing is held any more.
    pub fn is_lost(&self) -> bool {
        self.shared.alive.is_lost()
    }

    fn guard(
        &self,
        span: Span<K>,
        access: Access,
        tries: bool,
        end: Option<Instant>,
    ) -> Result<RangeGuard<K>, Error> {
        let (joins, tag, number) = (false, None, Holder::current().to_bits().into());
        let parts = vec![(encoded(&span), access)];
        let granted = self.acquire(Asked { joins, tries, tag, number, end }, parts)?;
        Ok(RangeGuard { lock: self.clone(), span, access, granted })
    }

    /// Waits for a request of this session.
    pub(super) fn acquire(&self, asked: Asked, parts: Vec<Part>) -> Result<Granted, Error> {
        let Asked { joins, tries, tag, number, end } = asked;
        self.shared.alive.check()?;
        let identity = Identity { session: self.shared.alive.lease, number };
        let claim = Claim { identity, joins, tries, tag, name: self.shared.name().to_owned(), parts };
        self.shared.run(queue::lock::<K>(&self.shared, &self.names, claim, end))
    }

    /// A number that no other request or owner of the session has.
    pub(super) fn number(&self) -> u64 {
        self.shared.number()
    }

    /// Writes values and gives back requests.
    pub(super) fn change(&self, changes: Vec<Change>) -> Result<i64, Error> {
        self.shared.run(queue::change(&self.shared.alive, changes))
    }
}

/// A request in a [dump](RangeLock::dump).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The owner that has made the request.
    pub owner: Participant,
    /// What it wants or holds.
    pub ranges: String,
    /// Its place in the order of arrival: the revision of etcd at which it came.
    pub place: u64,
    /// Whether it waits.
    pub waits: bool,
}

/// How a request is made.
pub(super) struct Asked {
    pub joins: bool,
    pub tries: bool,
    pub tag: Option<u64>,
    pub number: u64,
    pub end: Option<Instant>,
}

impl<K: Portable> RangeGuard<K> {
    /// What is held.
    pub fn span(&self) -> &Span<K> {
        &self.span
    }

    /// Whether it is shared.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The fencing token: of two holders of the same key that exclude each other, the later one has
    /// the higher token. A resource that remembers the highest token that it has seen, and refuses
    /// lower ones, is safe from a holder that was stopped and does not know yet that its session is
    /// lost.
    pub fn token(&self) -> u64 {
        self.granted.token.unsigned_abs()
    }

    /// Whether the session is lost: then the range is not held any more. See
    /// [`Session::on_lost`](super::Session::on_lost) to be told.
    pub fn is_lost(&self) -> bool {
        self.lock.is_lost()
    }

    /// Gives the range back, as the drop does, and says whether that went well.
    ///
    /// # Errors
    /// [`Error::SessionLost`]: it had been given back before.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.leave()
    }

    fn leave(&mut self) -> Result<(), Error> {
        let key = std::mem::take(&mut self.granted.own.key);
        if key.is_empty() {
            return Ok(());
        }
        let change = Change { key, version: 0, value: None, grave: self.granted.grave.take() };
        self.lock.change(vec![change]).map(drop)
    }
}

impl<K: Portable> Drop for RangeGuard<K> {
    fn drop(&mut self) {
        // If the session is lost, nothing is held.
        let _ = self.leave();
    }
}

impl<K> Clone for RangeLock<K> {
    fn clone(&self) -> RangeLock<K> {
        RangeLock { shared: Arc::clone(&self.shared), names: self.names.clone(), keys: PhantomData }
    }
}

impl<K> fmt::Debug for RangeLock<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RangeLock").field("names", &self.names).finish_non_exhaustive()
    }
}

impl<K: Portable> fmt::Debug for RangeGuard<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("RangeGuard");
        shown.field("span", &self.span).field("access", &self.access).field("token", &self.token());
        shown.finish_non_exhaustive()
    }
}
