//! A range lock for several machines, and its guards.

use super::error::{Error, Participant};
use super::index::Index;
use super::portable::{Portable, encoded, shown};
use super::queue::{self, Granted, Leaves, Name};
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

/// Numbers of requests of nobody have this bit.
const NOBODY: u64 = 1 << 33;

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
    pub(super) shared: Arc<Shared>,
    pub(super) index: Index,
    keys: PhantomData<fn(K)>,
}

/// A range, or several ([`ManyGuard`](super::ManyGuard)), that is held until this is dropped. The
/// drop waits until etcd has given it back, or the session is lost.
#[must_use = "what is held is given back when this is dropped"]
pub struct RangeGuard<K: Portable, S = Span<K>> {
    held: Held<K>,
    pub(super) what: S,
    access: Access,
}

/// A request that is given back when this is dropped.
struct Held<K> {
    lock: RangeLock<K>,
    token: i64,
    /// `None` when it was given back.
    name: Option<Name>,
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
        RangeLock { shared: Arc::clone(self.shared()), index: Index::new(name), keys: PhantomData }
    }
}

impl<K: Portable> RangeLock<K> {
    /// Takes the range. Waits until no other holder, on any machine, has a key of it.
    ///
    /// # Errors
    /// [`Error::InvalidRange`]; [`Error::Deadlock`], also if the calling thread holds a guard that
    /// is in its own way; [`Error::SessionLost`], [`Error::Refused`] and [`Error::Foreign`].
    pub fn lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Shares the range. Waits until no other holder has a key of it for itself.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_shared<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.lock_as(range.into_span()?, Access::Shared)
    }

    /// As [`RangeLock::lock`] or [`RangeLock::lock_shared`]: the access is a value.
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub fn lock_as(&self, span: Span<K>, access: Access) -> Result<RangeGuard<K>, Error> {
        self.guard(span, access, Manner::WAITS)
    }

    /// Takes the range if that needs no waiting for another holder. (It does wait for etcd.)
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; otherwise as [`RangeLock::lock`]. Meanwhile a `try_lock` of another
    /// process may fail, too.
    pub fn try_lock<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, Manner::TRIES)
    }

    /// Shares the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_shared<R: IntoSpan<K>>(&self, range: R) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Shared, Manner::TRIES)
    }

    /// Takes the range, and gives up after `timeout`. That limits the wait for other holders and
    /// nothing else: a range that is free is taken, however little time there is. If etcd does not
    /// answer, it returns as soon as etcd does, or when the session is lost.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; otherwise as [`RangeLock::lock`].
    pub fn lock_timeout<R: IntoSpan<K>>(&self, range: R, timeout: Duration) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, Manner::within(timeout))
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
        self.guard(range.into_span()?, Access::Shared, Manner::within(timeout))
    }

    /// As [`RangeLock::lock_timeout`], but gives up at `end`.
    ///
    /// ```no_run
    /// # use manx::range::cluster::{Error, Options, RangeLock, Session};
    /// use std::time::{Duration, Instant};
    ///
    /// # let session = Session::connect(Options::new(["127.0.0.1:2379"]))?;
    /// // Both, or neither, by one point in time.
    /// let (from, to): (RangeLock<u64>, RangeLock<u64>) = (session.range_lock("a"), session.range_lock("b"));
    /// let end = Instant::now() + Duration::from_secs(5);
    /// let both = (from.lock_until(0..10, end)?, to.lock_until(90..100, end)?);
    /// # drop(both);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_until<R: IntoSpan<K>>(&self, range: R, end: Instant) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Exclusive, Manner::until(end))
    }

    /// As [`RangeLock::lock_shared_timeout`], but gives up at `end`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_shared_until<R: IntoSpan<K>>(&self, range: R, end: Instant) -> Result<RangeGuard<K>, Error> {
        self.guard(range.into_span()?, Access::Shared, Manner::until(end))
    }

    /// As [`RangeLock::lock_as`], for a task of any executor. The future may be dropped at any
    /// time: then the request leaves in the background. What it locks belongs to the
    /// [`task`](crate::range::task()) that polls it, if there is one.
    ///
    /// The drop of a guard blocks: a task gives it back by [`RangeGuard::unlock_async`].
    ///
    /// ```no_run
    /// use manx::range::cluster::{Error, RangeLock};
    /// use manx::range::{Access, Span};
    ///
    /// async fn update(file: &RangeLock<u64>) -> Result<(), Error> {
    ///     let head = file.lock_async(Span::new(0, 4096)?, Access::Exclusive).await?;
    ///     println!("write with token {}", head.token());
    ///     head.unlock_async().await
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`RangeLock::lock`].
    pub async fn lock_async(&self, span: Span<K>, access: Access) -> Result<RangeGuard<K>, Error> {
        self.guard_async(vec![(encoded(&span), access)], span, access).await
    }

    /// All requests of the lock, of all machines, in the order of their arrival: held ranges and
    /// waiters at one moment.
    ///
    /// # Errors
    /// As [`RangeLock::lock`], beside deadlocks.
    pub fn dump(&self) -> Result<Vec<Entry>, Error> {
        let list = self.shared.run(queue::list(&self.shared.alive, &self.index))?;
        let entry = |request: &Request| Entry {
            owner: participant(request),
            ranges: written(request, |(span, access)| format!("{access:?} {}", shown::<K>(span))),
            place: request.place.unsigned_abs(),
            waits: !judge(&list, request).blockers.is_empty(),
        };
        Ok(list.iter().map(entry).collect())
    }

    fn guard(&self, span: Span<K>, access: Access, manner: Manner) -> Result<RangeGuard<K>, Error> {
        self.guard_parts(vec![(encoded(&span), access)], span, access, manner)
    }

    /// The parts are `what`, by a request of the calling thread.
    pub(super) fn guard_parts<S>(
        &self,
        parts: Vec<Part>,
        what: S,
        access: Access,
        manner: Manner,
    ) -> Result<RangeGuard<K, S>, Error> {
        let number = Holder::current().to_bits().into();
        let granted = self.shared.run(self.acquire(Asked { number, owner: None, manner }, parts))?;
        Ok(RangeGuard { held: self.held(granted), what, access })
    }

    /// The parts are `what`, by a request of the task that polls this; if it is no
    /// [`task`](crate::range::task()), of nobody.
    pub(super) async fn guard_async<S>(
        &self,
        parts: Vec<Part>,
        what: S,
        access: Access,
    ) -> Result<RangeGuard<K, S>, Error> {
        let holder = Holder::current();
        let number = match holder.task_number() {
            Some(_) => holder.to_bits().into(),
            None => NOBODY | self.shared.number(),
        };
        let asked = Asked { number, owner: None, manner: Manner::WAITS };
        let granted = self.shared.within(self.acquire(asked, parts)).await?;
        Ok(RangeGuard { held: self.held(granted), what, access })
    }

    fn held(&self, granted: Granted) -> Held<K> {
        Held { lock: self.clone(), token: granted.token, name: Some(granted.name) }
    }

    /// Waits for a request of this session.
    pub(super) async fn acquire(&self, asked: Asked, parts: Vec<Part>) -> Result<Granted, Error> {
        let Asked { number, owner, manner: Manner { tries, end } } = asked;
        self.shared.alive.check()?;
        let identity = Identity { session: self.shared.alive.lease, number };
        let joins = owner.is_some();
        let Ownership { tag, earlier } = owner.unwrap_or_default();
        let claim = Claim { identity, joins, tries, tag, name: self.shared.name().to_owned(), parts };
        queue::lock::<K>(&self.shared, &self.index, claim, earlier, end).await
    }
}

impl<K> RangeLock<K> {
    /// Whether the session is lost: then nothing is held any more.
    pub fn is_lost(&self) -> bool {
        self.shared.alive.is_lost()
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

/// What makes a request, and how.
pub(super) struct Asked {
    pub number: u64,
    /// `None`: a thread or a task.
    pub owner: Option<Ownership>,
    pub manner: Manner,
}

#[derive(Default)]
pub(super) struct Ownership {
    pub tag: Option<u64>,
    /// The owner's requests so far.
    pub earlier: Vec<Request>,
}

/// For how long a request waits.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub tries: bool,
    pub end: Option<Instant>,
}

impl Manner {
    pub(super) const WAITS: Manner = Manner { tries: false, end: None };
    pub(super) const TRIES: Manner = Manner { tries: true, end: None };

    pub(super) fn until(end: Instant) -> Manner {
        Manner { tries: false, end: Some(end) }
    }

    pub(super) fn within(timeout: Duration) -> Manner {
        Manner { tries: false, end: Instant::now().checked_add(timeout) }
    }
}

impl<K> Held<K> {
    fn leaves(&mut self) -> Option<Leaves<'_>> {
        self.name.take().map(|name| Leaves::new(&self.lock.shared, name))
    }

    fn leave(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.lock.shared);
        self.leaves().map_or(Ok(()), |leaves| shared.run(leaves.now()))
    }

    async fn leave_async(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.lock.shared);
        match self.leaves() {
            Some(leaves) => shared.within(leaves.now()).await,
            None => Ok(()),
        }
    }
}

impl<K> Drop for Held<K> {
    fn drop(&mut self) {
        // If the session is lost, nothing is held.
        let _ = self.leave();
    }
}

impl<K: Portable> RangeGuard<K> {
    /// What is held.
    pub fn span(&self) -> &Span<K> {
        &self.what
    }
}

impl<K: Portable, S> RangeGuard<K, S> {
    /// Whether it is shared.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The fencing token: of two holders of the same key that exclude each other, the later one has
    /// the higher token. A resource that remembers the highest token that it has seen, and refuses
    /// lower ones, is safe from a holder that was stopped and does not know yet that its session is
    /// lost.
    pub fn token(&self) -> u64 {
        self.held.token.unsigned_abs()
    }

    /// Whether the session is lost: then nothing is held any more. See
    /// [`Session::on_lost`](super::Session::on_lost) to be told.
    pub fn is_lost(&self) -> bool {
        self.held.lock.is_lost()
    }

    /// Gives it back, as the drop does, and says whether that went well.
    ///
    /// # Errors
    /// [`Error::SessionLost`]: it had been given back before.
    pub fn unlock(mut self) -> Result<(), Error> {
        self.held.leave()
    }

    /// As [`RangeGuard::unlock`], without a thread that waits. If the future is dropped, what is
    /// held is given back in the background.
    ///
    /// # Errors
    /// As [`RangeGuard::unlock`].
    pub async fn unlock_async(mut self) -> Result<(), Error> {
        self.held.leave_async().await
    }
}

impl<K> Clone for RangeLock<K> {
    fn clone(&self) -> RangeLock<K> {
        RangeLock { shared: Arc::clone(&self.shared), index: self.index.clone(), keys: PhantomData }
    }
}

impl<K> fmt::Debug for RangeLock<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RangeLock").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<K: Portable, S: fmt::Debug> fmt::Debug for RangeGuard<K, S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("RangeGuard");
        shown.field("what", &self.what).field("access", &self.access).field("token", &self.token());
        shown.finish_non_exhaustive()
    }
}
