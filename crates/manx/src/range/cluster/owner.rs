//! Owners across machines: an owner locks ranges one after the other, and gives them back when it
//! is done, as a transaction does.
//!
//! What an owner holds is never in its own way. Each range that it takes is a request of its own in
//! etcd, unless it holds the keys already: then nothing is written. A request *carries* ranges, its
//! own one and others:
//!
//! 1. A range that was taken past a request (`rule.rs`) is carried by the requests that have that
//!    one wait, too; they were grown for it.
//! 2. A range that was held already is carried by what carried it then.
//!
//! So when a range is given back, each request that carried it is written with what it still
//! carries, or leaves if that is nothing. A range that is still held is at no moment free.

use super::error::Error;
use super::lock::{Asked, Manner, Ownership, RangeLock};
use super::many::parts;
use super::portable::{Portable, encoded};
use super::queue::{self, Change, Granted, Leaves, Name};
use super::request::{Claim, Part, Request};
use crate::range::many::SpanSet;
use crate::range::raw::Access;
use crate::range::span::{IntoSpan, Span};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers of owners have this bit; those of threads and tasks have not.
const OWNER: u64 = 1 << 32;

/// A holder of several ranges of one [`RangeLock`], such as a transaction. It keeps them until it
/// releases them or is dropped. Ranges of one owner may overlap each other: they never conflict.
///
/// ```no_run
/// use manx::range::cluster::{Error, Options, RangeLock, Session};
///
/// let session = Session::connect(Options::new(["127.0.0.1:2379"]))?;
/// let table: RangeLock<u64> = session.range_lock("tables/customers");
/// let mut transaction = table.owner();
/// transaction.lock_shared(0..100)?;
/// transaction.lock(10..20)?; // shared by itself only
/// println!("commit with token {}", transaction.token());
/// transaction.release_all()?;
/// # Ok::<(), Error>(())
/// ```
pub struct Owner<K: Portable> {
    lock: RangeLock<K>,
    number: u64,
    tag: Option<u64>,
    /// In the order of locking.
    held: Vec<Held<K>>,
    requests: Vec<Own>,
    token: i64,
    /// A task was dropped while it wrote requests: which values they have is not known.
    is_torn: bool,
}

#[derive(Clone)]
struct Held<K> {
    span: Span<K>,
    access: Access,
    /// The keys of the requests that carry it.
    carriers: Vec<Vec<u8>>,
}

/// A request as it stands in etcd.
#[derive(Clone)]
struct Own {
    request: Request,
    name: Name,
}

impl<K: Portable> RangeLock<K> {
    /// An owner that holds nothing yet.
    pub fn owner(&self) -> Owner<K> {
        let number = OWNER | self.shared.number();
        let (lock, held, requests) = (self.clone(), Vec::new(), Vec::new());
        Owner { lock, number, tag: None, held, requests, token: 0, is_torn: false }
    }
}

impl<K: Portable> Owner<K> {
    /// Sets the number by which a [`Deadlock`](super::Deadlock) names this owner, such as a
    /// transaction's id. It counts from the next range on.
    pub fn set_tag(&mut self, tag: u64) {
        self.tag = Some(tag);
    }

    /// Takes the range. Waits until no other holder, on any machine, has a key of it.
    ///
    /// # Errors
    /// As [`RangeLock::lock`]. What was held is held, unless the session is lost.
    pub fn lock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.lock_as(range.into_span()?, Access::Exclusive)
    }

    /// Shares the range. Waits until no other holder has a key of it for itself.
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub fn lock_shared<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.lock_as(range.into_span()?, Access::Shared)
    }

    /// As [`Owner::lock`] or [`Owner::lock_shared`]: the access is a value.
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub fn lock_as(&mut self, span: Span<K>, access: Access) -> Result<(), Error> {
        self.take_one(span, access, Manner::WAITS)
    }

    /// Takes the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Exclusive, Manner::TRIES)
    }

    /// Shares the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_shared<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Shared, Manner::TRIES)
    }

    /// Takes the range, and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_timeout<R: IntoSpan<K>>(&mut self, range: R, timeout: Duration) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Exclusive, Manner::within(timeout))
    }

    /// Shares the range, and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_shared_timeout<R: IntoSpan<K>>(&mut self, range: R, timeout: Duration) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Shared, Manner::within(timeout))
    }

    /// As [`Owner::lock_timeout`], but gives up at `end`: one for all that a transaction locks.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_until<R: IntoSpan<K>>(&mut self, range: R, end: Instant) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Exclusive, Manner::until(end))
    }

    /// As [`Owner::lock_shared_timeout`], but gives up at `end`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_shared_until<R: IntoSpan<K>>(&mut self, range: R, end: Instant) -> Result<(), Error> {
        self.take_one(range.into_span()?, Access::Shared, Manner::until(end))
    }

    /// Takes all of the ranges, or none. While it waits, it has none of them; so owners that want
    /// the same ranges in different orders do not get stuck.
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub fn lock_many(&mut self, set: SpanSet<K>, access: Access) -> Result<(), Error> {
        let shared = Arc::clone(&self.lock.shared);
        shared.run(self.take(set, access, Manner::WAITS))
    }

    /// As [`Owner::lock`], for a task of any executor. The future may be dropped at any time: then
    /// the range is not held.
    ///
    /// ```no_run
    /// use manx::range::cluster::{Error, Owner};
    ///
    /// async fn rename(directory: &mut Owner<String>) -> Result<(), Error> {
    ///     directory.lock_shared_async(.."b".to_owned()).await?;
    ///     directory.lock_async("a".to_owned().."aa".to_owned()).await?;
    ///     directory.release_all_async().await
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub async fn lock_async<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.lock_as_async(range.into_span()?, Access::Exclusive).await
    }

    /// As [`Owner::lock_shared`], for a task. See [`Owner::lock_async`].
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub async fn lock_shared_async<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.lock_as_async(range.into_span()?, Access::Shared).await
    }

    /// As [`Owner::lock_as`], for a task. See [`Owner::lock_async`].
    ///
    /// # Errors
    /// As [`Owner::lock`].
    pub async fn lock_as_async(&mut self, span: Span<K>, access: Access) -> Result<(), Error> {
        let set = SpanSet::merged([span])?;
        let shared = Arc::clone(&self.lock.shared);
        shared.within(self.take(set, access, Manner::WAITS)).await
    }

    fn take_one(&mut self, span: Span<K>, access: Access, manner: Manner) -> Result<(), Error> {
        let set = SpanSet::merged([span])?;
        let shared = Arc::clone(&self.lock.shared);
        shared.run(self.take(set, access, manner))
    }

    async fn take(&mut self, set: SpanSet<K>, access: Access, manner: Manner) -> Result<(), Error> {
        self.mend().await?;
        let has = |span: &Span<K>| {
            let suffices = |held: &&Held<K>| {
                held.span.covers(span) && (held.access == Access::Exclusive || access == Access::Shared)
            };
            self.held.iter().find(suffices).map(|held| held.carriers.clone())
        };
        if !self.is_lost()
            && let Some(carriers) = set.spans().iter().map(has).collect::<Option<Vec<_>>>()
        {
            let held = set.spans().iter().cloned().zip(carriers);
            self.held.extend(held.map(|(span, carriers)| Held { span, access, carriers }));
            return Ok(());
        }
        let parts = parts(&set, access);
        let earlier = self.requests.iter().map(|own| own.request.clone()).collect();
        let owner = Some(Ownership { tag: self.tag, earlier });
        let asked = Asked { number: self.number, owner, manner };
        let lock = self.lock.clone();
        let Granted { own, grows, token, name } = lock.acquire(asked, parts.clone()).await?;
        let leaves = Leaves::new(&lock.shared, name.clone());
        let grown = match self.grow(&grows, &parts).await {
            Ok(grown) => grown,
            Err(error) => {
                // It is given back, or the session is lost.
                let _ = leaves.now().await;
                return Err(error);
            }
        };
        leaves.keep();
        self.token = self.token.max(token).max(grown);
        let carriers: Vec<Vec<u8>> = [own.key.clone()].into_iter().chain(grows).collect();
        self.requests.push(Own { request: own, name });
        let held = set.spans().iter().cloned();
        self.held.extend(held.map(|span| Held { span, access, carriers: carriers.clone() }));
        Ok(())
    }

    /// Writes the ranges into these requests, too.
    async fn grow(&mut self, keys: &[Vec<u8>], parts: &[Part]) -> Result<i64, Error> {
        if keys.is_empty() {
            return Ok(0);
        }
        let grown = self.requests.iter().filter(|own| keys.contains(&own.request.key));
        let grown: Vec<(Own, Claim)> = grown
            .map(|own| {
                let mut claim = own.request.claim.clone();
                claim.parts.extend_from_slice(parts);
                (own.clone(), claim)
            })
            .collect();
        let changes = grown.iter().map(|(own, claim)| own.becomes(claim)).collect();
        self.is_torn = true;
        let version = queue::change_all(&self.lock.shared.alive, changes).await?.revision;
        self.is_torn = false;
        for (grown, claim) in grown {
            let own = self.requests.iter_mut().find(|own| own.request.key == grown.request.key);
            own.into_iter().for_each(|own| {
                (own.request.claim, own.request.version) = (claim.clone(), version);
            });
        }
        Ok(version)
    }

    /// If a task was dropped while it wrote requests, they get back what they carry.
    async fn mend(&mut self) -> Result<(), Error> {
        if !self.is_torn {
            return Ok(());
        }
        let lock = self.lock.clone();
        let list = queue::list(&lock.shared.alive, &lock.index).await?;
        for own in &mut self.requests {
            if let Some(found) = list.iter().find(|request| request.key == own.request.key) {
                own.request = found.clone();
            }
        }
        self.keep(self.held.clone()).await?;
        self.is_torn = false;
        Ok(())
    }

    /// Undoes the last lock of exactly this range.
    ///
    /// # Errors
    /// [`Error::NotHeld`]; [`Error::SessionLost`]: all had been given back before.
    pub fn unlock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        let span = range.into_span()?;
        let found = self.held.iter().rposition(|held| held.span == span).ok_or(Error::NotHeld)?;
        let mut held = self.held.clone();
        held.remove(found);
        self.give_back(held)
    }

    /// Gives back all that is held of the range, by however many locks, and keeps what lies outside
    /// of it.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if nothing of it is held; [`Error::SessionLost`]; [`Error::Refused`].
    pub fn release<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        let span = range.into_span()?;
        if !self.held.iter().any(|held| held.span.overlaps(&span)) {
            return Err(Error::NotHeld);
        }
        let rest = self.held.iter().flat_map(|held| {
            let rest = match held.span.overlaps(&span) {
                true => <[_; 2]>::from(held.span.clone().without(&span)),
                false => [Some(held.span.clone()), None],
            };
            let carriers = &held.carriers;
            rest.into_iter().flatten().map(move |span| Held {
                span,
                access: held.access,
                carriers: carriers.clone(),
            })
        });
        let rest = rest.collect();
        self.give_back(rest)
    }

    /// Gives back everything.
    ///
    /// # Errors
    /// [`Error::SessionLost`]: all had been given back before.
    pub fn release_all(&mut self) -> Result<(), Error> {
        self.give_back(Vec::new())
    }

    /// As [`Owner::release_all`], for a task. If the future is dropped, all is given back in the
    /// background.
    ///
    /// # Errors
    /// As [`Owner::release_all`].
    pub async fn release_all_async(&mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.lock.shared);
        self.held.clear();
        let requests = std::mem::take(&mut self.requests);
        let leaves = requests.into_iter().map(|own| Leaves::new(&shared, own.name));
        // All are given back in the background, if this ends before.
        let leaves: Vec<Leaves<'_>> = leaves.collect();
        shared.within(queue::leave_all(&shared, leaves)).await
    }

    /// What is held, in the order of locking. Nothing of it is held any more if the session is
    /// lost.
    pub fn held(&self) -> impl Iterator<Item = (&Span<K>, Access)> {
        self.held.iter().map(|held| (&held.span, held.access))
    }

    /// The fencing token of the range that was taken last. It counts for all that the owner holds:
    /// see [`RangeGuard::token`](super::RangeGuard::token). 0 if nothing was taken yet.
    pub fn token(&self) -> u64 {
        self.token.unsigned_abs()
    }

    /// Whether the session is lost: then nothing is held any more.
    pub fn is_lost(&self) -> bool {
        self.lock.is_lost()
    }

    fn give_back(&mut self, rest: Vec<Held<K>>) -> Result<(), Error> {
        let shared = Arc::clone(&self.lock.shared);
        shared.run(async {
            self.mend().await?;
            self.keep(rest).await
        })
    }

    /// Gives back all but this.
    async fn keep(&mut self, held: Vec<Held<K>>) -> Result<(), Error> {
        let (mut changes, mut left, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for own in &self.requests {
            let carried = held.iter().filter(|held| held.carriers.contains(&own.request.key));
            let parts: Vec<Part> = carried.map(|held| (encoded(&held.span), held.access)).collect();
            let claim = Claim { parts, ..own.request.claim.clone() };
            if claim.parts.is_empty() {
                changes.push(own.name.leaves());
                left.push(own.name.clone());
                continue;
            }
            if claim != own.request.claim {
                changes.push(own.becomes(&claim));
            }
            let request = Request { claim, ..own.request.clone() };
            requests.push(Own { request, name: own.name.clone() });
        }
        if !changes.is_empty() {
            let written: Vec<Vec<u8>> = changes.iter().map(|change| change.key.clone()).collect();
            let shared = &self.lock.shared;
            let changed = queue::change_all(&shared.alive, changes).await?;
            for own in requests.iter_mut().filter(|own| written.contains(&own.request.key)) {
                own.request.version = changed.revision;
            }
            queue::have_left(shared, changed.is_doubtful, left.into_iter());
        }
        (self.requests, self.held) = (requests, held);
        Ok(())
    }
}

impl Own {
    fn becomes(&self, claim: &Claim) -> Change {
        let Request { key, version, .. } = &self.request;
        Change { key: key.clone(), version: *version, value: Some(claim.encode()), grave: None }
    }
}

impl<K: Portable> Drop for Owner<K> {
    fn drop(&mut self) {
        // If the session is lost, nothing is held.
        let _ = self.release_all();
    }
}

impl<K: Portable> fmt::Debug for Owner<K> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<_> = self.held().collect();
        let mut shown = to.debug_struct("Owner");
        shown
            .field("number", &self.number)
            .field("held", &held)
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
