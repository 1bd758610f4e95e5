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
use super::lock::{Asked, RangeLock};
use super::portable::{Portable, encoded};
use super::queue::{Change, Granted};
use super::request::{Claim, Part};
use crate::range::raw::Access;
use crate::range::span::{IntoSpan, Span};
use std::fmt;
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
}

#[derive(Clone)]
struct Held<K> {
    span: Span<K>,
    access: Access,
    /// The keys of the requests that carry it.
    carriers: Vec<Vec<u8>>,
}

/// A request in etcd.
struct Own {
    key: Vec<u8>,
    version: i64,
    /// As it stands there.
    claim: Claim,
    grave: Option<Vec<u8>>,
}

impl<K: Portable> RangeLock<K> {
    /// An owner that holds nothing yet.
    pub fn owner(&self) -> Owner<K> {
        let number = OWNER | self.number();
        Owner { lock: self.clone(), number, tag: None, held: Vec::new(), requests: Vec::new(), token: 0 }
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
        self.take(span, access, false, None)
    }

    /// Takes the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.take(range.into_span()?, Access::Exclusive, true, None)
    }

    /// Shares the range if that needs no waiting for another holder.
    ///
    /// # Errors
    /// As [`RangeLock::try_lock`].
    pub fn try_lock_shared<R: IntoSpan<K>>(&mut self, range: R) -> Result<(), Error> {
        self.take(range.into_span()?, Access::Shared, true, None)
    }

    /// Takes the range, and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_timeout<R: IntoSpan<K>>(&mut self, range: R, timeout: Duration) -> Result<(), Error> {
        self.take(range.into_span()?, Access::Exclusive, false, Instant::now().checked_add(timeout))
    }

    /// Shares the range, and gives up after `timeout`.
    ///
    /// # Errors
    /// As [`RangeLock::lock_timeout`].
    pub fn lock_shared_timeout<R: IntoSpan<K>>(&mut self, range: R, timeout: Duration) -> Result<(), Error> {
        self.take(range.into_span()?, Access::Shared, false, Instant::now().checked_add(timeout))
    }

    fn take(
        &mut self,
        span: Span<K>,
        access: Access,
        tries: bool,
        end: Option<Instant>,
    ) -> Result<(), Error> {
        let suffices = |held: &&Held<K>| {
            held.span.covers(&span) && (held.access == Access::Exclusive || access == Access::Shared)
        };
        if !self.is_lost()
            && let Some(held) = self.held.iter().find(suffices)
        {
            let carriers = held.carriers.clone();
            self.held.push(Held { span, access, carriers });
            return Ok(());
        }
        let part = (encoded(&span), access);
        let asked = Asked { joins: true, tries, tag: self.tag, number: self.number, end };
        let Granted { own, grows, token, grave } = self.lock.acquire(asked, vec![part.clone()])?;
        let own = Own { key: own.key, version: own.version, claim: own.claim, grave };
        let token = match self.grow(&grows, &part) {
            Ok(grown) => token.max(grown),
            Err(error) => {
                // It is given back, or the session is lost.
                let _ = self.lock.change(vec![own.leaves()]);
                return Err(error);
            }
        };
        self.token = self.token.max(token);
        let carriers = [own.key.clone()].into_iter().chain(grows).collect();
        self.requests.push(own);
        self.held.push(Held { span, access, carriers });
        Ok(())
    }

    /// Writes the range into these requests, too.
    fn grow(&mut self, keys: &[Vec<u8>], part: &Part) -> Result<i64, Error> {
        if keys.is_empty() {
            return Ok(0);
        }
        let mut grown = Vec::new();
        for own in self.requests.iter().filter(|own| keys.contains(&own.key)) {
            let mut claim = own.claim.clone();
            claim.parts.push(part.clone());
            grown.push(claim);
        }
        let requests = || self.requests.iter().filter(|own| keys.contains(&own.key));
        let changes = requests().zip(&grown).map(|(own, claim)| own.becomes(claim)).collect();
        let version = self.lock.change(changes)?;
        for (own, claim) in self.requests.iter_mut().filter(|own| keys.contains(&own.key)).zip(grown) {
            (own.claim, own.version) = (claim, version);
        }
        Ok(version)
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
        self.keep(held)
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
        self.keep(rest.collect())
    }

    /// Gives back everything.
    ///
    /// # Errors
    /// [`Error::SessionLost`]: all had been given back before.
    pub fn release_all(&mut self) -> Result<(), Error> {
        self.keep(Vec::new())
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

    /// Gives back all but this.
    fn keep(&mut self, held: Vec<Held<K>>) -> Result<(), Error> {
        let mut changes = Vec::new();
        let mut requests = Vec::new();
        for own in &self.requests {
            let carried = held.iter().filter(|held| held.carriers.contains(&own.key));
            let parts: Vec<Part> = carried.map(|held| (encoded(&held.span), held.access)).collect();
            let claim = Claim { parts, ..own.claim.clone() };
            if claim.parts.is_empty() {
                changes.push(own.leaves());
                continue;
            }
            if claim != own.claim {
                changes.push(own.becomes(&claim));
            }
            requests.push(Own {
                key: own.key.clone(),
                version: own.version,
                claim,
                grave: own.grave.clone(),
            });
        }
        if !changes.is_empty() {
            let written: Vec<Vec<u8>> = changes.iter().map(|change| change.key.clone()).collect();
            let version = self.lock.change(changes)?;
            for own in requests.iter_mut().filter(|own| written.contains(&own.key)) {
                own.version = version;
            }
        }
        (self.requests, self.held) = (requests, held);
        Ok(())
    }
}

impl Own {
    fn leaves(&self) -> Change {
        Change { key: self.key.clone(), version: self.version, value: None, grave: self.grave.clone() }
    }

    fn becomes(&self, claim: &Claim) -> Change {
        Change { key: self.key.clone(), version: self.version, value: Some(claim.encode()), grave: None }
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
