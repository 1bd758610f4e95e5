//! How a transaction ends: it commits, or takes back what it wrote.
//!
//! A commit has three parts: its place in the data component, where one has been given; the end of
//! its id, by which others see it; and the wait until it is durable, which a caller may put off
//! ([`Transaction::commit_early`]).
//!
//! Invariants:
//! 1. A transaction is committed in this order: its place in the data component, the timestamp, the
//!    end of the id; then its locks are released, and only then it waits until it is durable. So
//!    what another transaction sees, and writes over, has a place before that one's.
//! 2. A transaction succeeds when all that it has seen is durable, if it is to be: those that write
//!    wait for their own place, which is later, and those that only read for the last one that they
//!    have seen (`reads.rs`).

use super::data::Change;
use super::error::Error;
use super::table::Written;
use super::transaction::Transaction;
use crossbeam_epoch as epoch;
use std::sync::atomic::Ordering;

/// A transaction that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// Its id; `None` if it wrote nothing.
    pub id: Option<u64>,
    /// What [`Store::wait`](super::Store::wait) waits for, if it has to be waited for
    /// ([`Transaction::commit_early`]); 0 if all is durable that is to be.
    pub place: u64,
}

impl Transaction<'_> {
    /// Commits what it wrote. If the data component is durable, so is what was committed, when this
    /// returns; and so is all that the transaction has read, also if it has written nothing.
    ///
    /// Other transactions see it a little earlier. So they need not wait for the disk to write the
    /// same keys, and succeed only after it.
    ///
    /// # Errors
    /// What failed before, if something did: it is rolled back. [`Error::Data`], which says whether
    /// it is rolled back or that is not known ([`DataError::outcome`](super::DataError::outcome)).
    #[inline]
    pub fn commit(self) -> Result<Committed, Error> {
        let inner = self.inner;
        let committed = self.finish(0)?;
        inner.wait(committed.place)?;
        Ok(committed)
    }

    /// Commits what it wrote, as [`Transaction::commit`] does, and does not wait until it is
    /// durable. It has succeeded when [`Store::wait`](super::Store::wait) has returned for its
    /// place: a server can do the commands of many clients, wait once, and answer them all.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// let mut last = 0;
    /// for key in [b"a", b"b"] {
    ///     let mut it = session.begin(Isolation::Snapshot)?;
    ///     it.put(key, b"value")?;
    ///     last = last.max(it.commit_early()?.place);
    /// }
    /// store.wait(last)?;
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[inline]
    pub fn commit_early(self) -> Result<Committed, Error> {
        self.finish(0)
    }

    /// Commits what it wrote at a timestamp of the caller's: transactions that read at an earlier
    /// timestamp ([`Session::begin_at`](super::Session::begin_at)) do not see it. (All see what
    /// [`Transaction::commit`] committed.)
    ///
    /// # Errors
    /// [`Error::BadTimestamp`] if it is not above the oldest timestamp, or that of the last commit
    /// of one of its keys; and as [`Transaction::commit`].
    pub fn commit_at(self, timestamp: u64) -> Result<Committed, Error> {
        let inner = self.inner;
        inner.versions.timestamps.begin_commit(timestamp)?;
        let result = self.finish(timestamp);
        inner.versions.timestamps.end_commit(timestamp);
        let committed = result?;
        inner.wait(committed.place)?;
        Ok(committed)
    }

    /// Takes back what it wrote. So does dropping it.
    pub fn rollback(self) {}

    fn finish(mut self, timestamp: u64) -> Result<Committed, Error> {
        if let Some(why) = self.failed.take() {
            return Err(why);
        }
        let Some(id) = self.work.ids.id() else {
            if let Some(data) = &self.inner.versions.table.data {
                data.confirm()?;
            }
            return Ok(Committed { id: None, place: self.work.reads.depends() });
        };
        if timestamp != 0 {
            let guard = &epoch::pin();
            let stamped = self.work.written.iter().map(|it| it.row.stamped_before(id, guard));
            let above = stamped.max().unwrap_or(0);
            if timestamp <= above {
                return Err(Error::BadTimestamp { asked: timestamp, above });
            }
        }
        // Invariant 1.
        let place = match &self.inner.versions.table.data {
            Some(data) => {
                let timestamps = (timestamp, self.inner.versions.timestamps.settled());
                data.append(id, timestamps, &self.changes())?
            }
            None => 0,
        };
        if timestamp != 0 {
            let guard = &epoch::pin();
            self.work.written.iter().for_each(|it| it.row.stamp(id, timestamp, guard));
        }
        self.inner.committed.fetch_add(1, Ordering::Relaxed);
        self.work.end(id, self.inner);
        Ok(Committed { id: Some(id), place })
    }

    /// What it wrote, for the data component.
    fn changes(&self) -> Vec<Change> {
        let guard = &epoch::pin();
        let change = |it: &Written| {
            let key = it.row.key().into();
            let seen = it.row.see(self.view(), guard)?.value.clone();
            Some(match seen {
                Some(value) => Change::Put { key, value },
                None => Change::Delete { key },
            })
        };
        self.work.written.iter().filter_map(change).collect()
    }
}
