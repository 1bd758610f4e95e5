//! A transaction: what it sees, and what it writes. `commit.rs` has how it ends.
//!
//! | isolation | it sees | it locks | it gets a conflict when |
//! | --- | --- | --- | --- |
//! | read uncommitted | what was written last | nothing | a transaction that was not over when the call began has written the key |
//! | read committed | what was over when each call began | nothing | likewise |
//! | snapshot | what was over when it began | nothing | a transaction that was not over then has written the key |
//! | serializable | what was over when it had locked the first thing | what it reads, shared; what it writes, alone | another transaction has since written what it reads or writes, or transactions wait for each other |
//!
//! Two snapshots may be skewed: each of two reads what the other writes, and no order of the two
//! explains both. Serializable transactions hold the ranges that they have read, also where there
//! is nothing, until they end, so there are no phantoms. What they read is what their snapshot
//! shows *and* what is true until they end, or they get a conflict; so each is as if it
//! happened at its end, at once. That is so among serializable transactions, as in any such system:
//! a transaction that writes at a lower level asks for no lock, though a transaction that writes
//! the same key finds it out.
//!
//! Invariant: what a transaction wrote is in the versions of the keys in its session's `written`,
//! under its id, until it is committed or taken back.

use super::data::{Bounds, Value};
use super::error::Error;
use super::savepoint::Savepoint;
use super::store::Inner;
use super::table::{Part, ReadError, Visited, WriteError, Wrote};
use super::versions::View;
use super::work::Work;
use crate::range::{Access, Owner, Span};
use crossbeam_epoch as epoch;
use platform::futex::Deadline;
use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::atomic::Ordering;

/// What a transaction is protected from.
///
/// ```
/// use manx::txn::{Isolation, Options, Store};
///
/// let store = Store::in_memory(Options::default());
/// let (mut one, mut other) = (store.session()?, store.session()?);
/// let mut writer = one.begin(Isolation::Snapshot)?;
/// writer.put(b"a", b"1")?;
/// // Only this one sees what may be taken back.
/// assert!(other.begin(Isolation::ReadUncommitted)?.get(b"a")?.is_some());
/// assert!(other.begin(Isolation::ReadCommitted)?.get(b"a")?.is_none());
/// # drop(writer);
/// # Ok::<(), manx::txn::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// From nothing: it sees what others have not committed, and may take back, or lose with the
    /// power.
    ReadUncommitted,
    /// From what is not committed. Two reads of a key may differ.
    ReadCommitted,
    /// It sees the store as it was when it began, and its own changes. Of two that write the same
    /// key one gets a conflict.
    #[default]
    Snapshot,
    /// All such transactions are as if one came after the other. It sees the store as it was when
    /// it had locked the first thing, holds what it reads, and gets a conflict if another
    /// transaction has changed that meanwhile.
    Serializable,
}

/// A transaction of a [`Store`](super::Store): [`Session::begin`](super::Session::begin) makes it.
///
/// Dropping it rolls it back. If it is forgotten ([`std::mem::forget`]) it is rolled back when its
/// session begins another or ends, but what it locked stays locked.
///
/// ```
/// use manx::txn::{Error, Isolation, Options, Store};
///
/// let store = Store::in_memory(Options::default());
/// let (mut one, mut other) = (store.session()?, store.session()?);
/// let mut first = one.begin(Isolation::Snapshot)?;
/// let mut second = other.begin(Isolation::Snapshot)?;
/// first.put(b"key", b"1")?;
/// // The first writer wins.
/// assert!(matches!(second.put(b"key", b"2"), Err(Error::Conflict { .. })));
/// first.commit()?;
/// # Ok::<(), Error>(())
/// ```
pub struct Transaction<'s> {
    pub(super) inner: &'s Inner,
    pub(super) work: &'s mut Work,
    isolation: Isolation,
    owner: Option<Owner<'s, Vec<u8>>>,
    /// Why it can only be rolled back.
    pub(super) failed: Option<Error>,
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Transaction")
            .field("isolation", &self.isolation)
            .field("id", &self.work.ids.id())
            .field("written", &self.work.written.len())
            .finish_non_exhaustive()
    }
}

impl<'s> Transaction<'s> {
    #[inline]
    pub(super) fn begin(inner: &'s Inner, work: &'s mut Work, isolation: Isolation) -> Self {
        if isolation == Isolation::Snapshot {
            work.ids.snapshot();
        }
        let keeps = matches!(isolation, Isolation::Snapshot | Isolation::Serializable);
        work.reads.begin(keeps && work.read_timestamp.is_none());
        let owner = (isolation == Isolation::Serializable)
            .then(|| inner.ranges.owner().escalating(inner.options.ranges_max));
        Transaction { inner, work, isolation, owner, failed: None }
    }

    /// Returns the id of the transaction; `None` until it has written something.
    pub fn id(&self) -> Option<u64> {
        self.work.ids.id()
    }

    /// What it is protected from.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// What a key has.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// let mut it = session.begin(Isolation::Snapshot)?;
    /// assert_eq!(it.get(b"key")?, None);
    /// it.put(b"key", b"value")?;
    /// assert_eq!(it.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Deadlock`] and [`Error::TooManyRanges`], if serializable: the
    /// transaction can then only be rolled back; [`Error::Failed`] if that is so already;
    /// [`Error::Data`].
    #[inline]
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.prepare(|| (Span::point(key.to_vec()), Access::Shared))?;
        self.check_read((Bound::Included(key), Bound::Included(key)))?;
        let guard = &epoch::pin();
        Ok(self.inner.versions.table.get(key, self.view(), &self.work.reads, guard)?)
    }

    /// The key has this value from now on.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`Error::Deadlock`] and [`Error::TooManyRanges`] if serializable,
    /// [`Error::Data`]. The transaction can then only be rolled back. [`Error::Failed`] if that is
    /// so already.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put_shared(key, value.into())
    }

    /// Sets the value of a key, as [`Transaction::put`] does, without a copy of the value.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_shared(&mut self, key: &[u8], value: Value) -> Result<(), Error> {
        self.prepare(|| (Span::point(key.to_vec()), Access::Exclusive))?;
        self.write(key, Some(value), |_| ())
    }

    /// Sets the value of a key, as [`Transaction::put_shared`] does, and returns the value that it
    /// had.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.run(Isolation::Snapshot, |it| {
    ///     assert_eq!(it.replace(b"key", (*b"one").into())?, None);
    ///     assert_eq!(it.replace(b"key", (*b"two").into())?.as_deref(), Some(&b"one"[..]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn replace(&mut self, key: &[u8], value: Value) -> Result<Option<Value>, Error> {
        self.prepare(|| (Span::point(key.to_vec()), Access::Exclusive))?;
        self.write(key, Some(value), |before| before.cloned())
    }

    /// The key has no value from now on. Returns whether it had one.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(self.take(key)?.is_some())
    }

    /// The key has no value from now on. Returns the value that it had.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn take(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.prepare(|| (Span::point(key.to_vec()), Access::Exclusive))?;
        self.check_read((Bound::Included(key), Bound::Included(key)))?;
        let was = self.inner.versions.table.get(key, self.view(), &self.work.reads, &epoch::pin())?;
        if was.is_some() {
            self.write(key, None, |_| ())?;
        }
        Ok(was)
    }

    /// No key of the range has a value from now on. Returns how many had one. At a lower isolation
    /// than [`Isolation::Serializable`] that is so for the keys that it sees; others may put new
    /// ones meanwhile.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.run(Isolation::Serializable, |it| {
    ///     for key in ["a1", "a2", "b1"] {
    ///         it.put(key.as_bytes(), b"1")?;
    ///     }
    ///     assert_eq!(it.delete_range("a".."b")?, 2);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidRange`], and as [`Transaction::put`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(
        &mut self,
        range: R,
    ) -> Result<usize, Error> {
        let (from, to) = owned(&range);
        let span = check((from.clone(), to.clone()))?;
        self.prepare(|| (span, Access::Exclusive))?;
        let (mut deleted, mut from, mut keys) = (0, from, Vec::new());
        loop {
            let visited = self.visit((as_ref(&from), as_ref(&to)), false, BATCH, |key, _| {
                keys.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            deleted += keys.len();
            keys.drain(..).try_for_each(|key| self.write(&key, None, |_| ()))?;
            match visited {
                Visited::Until(last) => from = Bound::Excluded(last),
                Visited::All | Visited::Enough => return Ok(deleted),
            }
        }
    }

    /// This moment, for [`Transaction::rollback_to`]. From now on each write takes the memory of
    /// what it replaces.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.run(Isolation::Snapshot, |it| {
    ///     it.put(b"a", b"1")?;
    ///     let before = it.savepoint();
    ///     it.put(b"a", b"2")?;
    ///     it.put(b"b", b"2")?;
    ///     it.rollback_to(before)?;
    ///     assert_eq!(it.get(b"a")?.as_deref(), Some(&b"1"[..]));
    ///     assert_eq!(it.get(b"b")?, None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.work.savepoints.add()
    }

    /// Takes back what it wrote since this savepoint, which stays. What it has locked stays locked,
    /// and later savepoints are gone.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`]; [`Error::Failed`] if the transaction has failed: then it can only be
    /// rolled back as a whole.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.check_usable()?;
        self.work.rollback_to(savepoint, self.inner)
    }

    /// What the key has, for a transaction that will write it: no other one writes it until this
    /// one has ended, or this one gets the conflict now and not later.
    ///
    /// ```
    /// use manx::txn::{Error, Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let (mut one, mut other) = (store.session()?, store.session()?);
    /// let mut first = one.begin(Isolation::Snapshot)?;
    /// assert_eq!(first.get_for_update(b"key")?, None);
    /// let mut second = other.begin(Isolation::Snapshot)?;
    /// assert!(matches!(second.put(b"key", b"1"), Err(Error::Conflict { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.prepare(|| (Span::point(key.to_vec()), Access::Exclusive))?;
        self.check_read((Bound::Included(key), Bound::Included(key)))?;
        let value = self.inner.versions.table.get(key, self.view(), &self.work.reads, &epoch::pin())?;
        self.write(key, value.clone(), |_| ())?;
        Ok(value)
    }

    /// Locks what is about to be read or written, if that is to be, and looks at what is over now,
    /// if it is to see that.
    #[inline]
    fn prepare(&mut self, locked: impl FnOnce() -> (Span<Vec<u8>>, Access)) -> Result<(), Error> {
        self.check_usable()?;
        if let Some(owner) = &mut self.owner {
            let (span, access) = locked();
            let limit = self.inner.options.lock_wait;
            let deadline = limit.map(Deadline::after);
            if let Err(error) = owner.lock_by_deadline(span, access, deadline) {
                self.inner.refused.fetch_add(1, Ordering::Relaxed);
                return Err(self.fail(Error::of_lock(error, limit)));
            }
        }
        let keeps = matches!(self.isolation, Isolation::Snapshot | Isolation::Serializable);
        if !keeps || self.work.ids.pinned().is_none() {
            self.work.ids.snapshot();
        }
        Ok(())
    }

    /// What a serializable transaction has locked to read must be as its snapshot shows it.
    #[inline]
    fn check_read(&mut self, bounds: Bounds<'_>) -> Result<(), Error> {
        if self.isolation != Isolation::Serializable {
            return Ok(());
        }
        match self.inner.versions.table.hidden(bounds, self.view(), &epoch::pin()) {
            None => Ok(()),
            Some((key, with)) => Err(self.conflict(&key, with)),
        }
    }

    #[inline]
    fn check_usable(&self) -> Result<(), Error> {
        if self.failed.is_some() { Err(Error::Failed) } else { Ok(()) }
    }

    /// From now on it can only be rolled back.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.failed = Some(error.clone());
        error
    }

    #[cold]
    fn conflict(&mut self, key: &[u8], with: u64) -> Error {
        self.inner.refused.fetch_add(1, Ordering::Relaxed);
        self.fail(Error::Conflict { key: key.into(), with })
    }

    fn timestamp(&self) -> u64 {
        self.work.read_timestamp.unwrap_or(u64::MAX)
    }

    pub(super) fn view(&self) -> View<'_> {
        match self.work.ids.pinned() {
            Some(snapshot) if self.isolation != Isolation::ReadUncommitted => {
                View::Of { snapshot, own: self.work.ids.id(), timestamp: self.timestamp() }
            }
            _ => View::Newest,
        }
    }

    /// Shows what the key had.
    fn write<T>(
        &mut self,
        key: &[u8],
        value: Option<Value>,
        see: impl FnOnce(Option<&Value>) -> T,
    ) -> Result<T, Error> {
        let id = self.work.ids.allocate();
        if let Some(owner) = &mut self.owner {
            // So that the error of a deadlock can name this transaction.
            owner.set_tag(id);
        }
        let guard = &epoch::pin();
        // A transaction that reads what is not committed must not write over it.
        let view = match self.work.ids.pinned() {
            Some(snapshot) => View::Of { snapshot, own: Some(id), timestamp: self.timestamp() },
            None => unreachable!("prepared"),
        };
        let versions = &self.inner.versions;
        match versions.table.write(key, id, value.as_ref(), view, &self.work.reads, guard) {
            Ok(Wrote { written, before }) => {
                let own = before.own.is_some();
                self.work.savepoints.record(own.then_some((&written, before.value)));
                self.work.retire(&before, self.inner, guard);
                if !own {
                    self.work.written.push(written);
                }
                Ok(see(before.value))
            }
            Err(WriteError::Conflict(with)) => Err(self.conflict(key, with)),
            Err(WriteError::Data(error)) => Err(self.fail(error.into())),
        }
    }

    /// Begins to read this range, which has not been read yet.
    pub(super) fn begin_read(&mut self, span: Span<Vec<u8>>) -> Result<(), Error> {
        self.prepare(|| (span, Access::Shared))
    }

    /// Shows about `limit` entries that it sees, of a range that it has begun to read, until the
    /// visitor has seen enough. (A scan goes on with the snapshot that it has begun with, so it is
    /// of one moment at each level.)
    pub(super) fn visit(
        &mut self,
        bounds: Bounds<'_>,
        descending: bool,
        limit: usize,
        see: impl FnMut(&[u8], &Value) -> ControlFlow<()>,
    ) -> Result<Visited, Error> {
        self.check_usable()?;
        let is_strict = self.isolation == Isolation::Serializable;
        let part = Part { bounds, descending, limit, is_strict };
        let guard = &epoch::pin();
        match self.inner.versions.table.visit(part, self.view(), &self.work.reads, guard, see) {
            Ok(visited) => Ok(visited),
            Err(ReadError::Hidden { key, with }) => Err(self.conflict(&key, with)),
            Err(ReadError::Data(error)) => Err(error.into()),
        }
    }
}

impl Drop for Transaction<'_> {
    #[inline]
    fn drop(&mut self) {
        // What was committed is nothing to take back any more.
        self.work.close(self.inner);
    }
}

/// A deletion of a range looks for this number of entries at once.
const BATCH: usize = 64;

type OwnedBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(super) fn owned<K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(range: &R) -> OwnedBounds {
    let bound = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (bound(range.start_bound()), bound(range.end_bound()))
}

pub(super) fn as_ref(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(|key| &**key)
}

/// Returns the range in a form that can be locked.
pub(super) fn check((from, to): OwnedBounds) -> Result<Span<Vec<u8>>, Error> {
    Span::between(from, to).map_err(Error::InvalidRange)
}
