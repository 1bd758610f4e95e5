//! Sessions: what begins transactions, one at a time, and tries them again.

use super::error::Error;
use super::store::Store;
use super::transaction::{Isolation, Transaction};
use super::work::Work;
use crate::wait::Adaptive;

/// Runs transactions, one at a time: [`Store::session`] makes it. It may move between threads.
#[derive(Debug)]
pub struct Session {
    store: Store,
    work: Work,
}

impl Store {
    /// A session: for one thread at a time, and one transaction at a time.
    ///
    /// ```
    /// use manx::txn::{Error, Options, Store};
    ///
    /// let store = Store::in_memory(Options::new().sessions_max(1));
    /// let only = store.session()?;
    /// assert!(matches!(store.session(), Err(Error::TooManySessions { limit: 1 })));
    /// # drop(only);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooManySessions`].
    pub fn session(&self) -> Result<Session, Error> {
        let limit = self.0.options.sessions_max.max(1);
        let ids = self.0.versions.ids.session().map_err(|_| Error::TooManySessions { limit })?;
        Ok(Session { store: self.clone(), work: Work::new(ids) })
    }

    /// Does what `work` does in a transaction, commits it, and returns what it returned. If that
    /// fails for a reason that may pass ([`Error::is_retryable`]), it waits a little, more each
    /// time, and begins again.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let count = store.run(Isolation::Serializable, |it| {
    ///     let count = it.get(b"count")?.map_or(0, |count| count[0]) + 1;
    ///     it.put(b"count", &[count])?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `work` or the commit said, if it cannot pass; [`Error::Retried`]; and as
    /// [`Store::session`] and [`Session::begin`], at once.
    pub fn run<T>(
        &self,
        isolation: Isolation,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut session = self.session()?;
        let mut backoff = Adaptive::DEFAULT.start();
        let tries_max = self.0.options.tries_max.max(1);
        for tried in 1.. {
            // A session that was not let in has waited long enough.
            let mut transaction = session.begin(isolation)?;
            let result = work(&mut transaction);
            match result.and_then(|done| transaction.commit().map(|_| done)) {
                Err(error) if error.is_retryable() && tried >= tries_max => {
                    return Err(Error::Retried { times: tried, last: Box::new(error) });
                }
                Err(error) if error.is_retryable() => backoff.wait(),
                done => return done,
            }
        }
        unreachable!("it returns at the last try")
    }
}

impl Session {
    /// Begins a transaction.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// let mut transaction = session.begin(Isolation::Serializable)?;
    /// transaction.put(b"key", b"value")?;
    /// transaction.commit()?;
    /// // One that is dropped is rolled back.
    /// session.begin(Isolation::Snapshot)?.put(b"key", b"other")?;
    /// assert_eq!(session.begin(Isolation::Snapshot)?.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooMany`], if [`Options::active_max`](super::Options::active_max) is set.
    #[inline]
    pub fn begin(&mut self, isolation: Isolation) -> Result<Transaction<'_>, Error> {
        self.work.open(&self.store.0)?;
        Ok(Transaction::begin(&self.store.0, &mut self.work, isolation))
    }

    /// Begins a transaction of [`Isolation::Snapshot`] that sees, of what was committed with a
    /// timestamp, nothing later than this.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// let mut session = store.session()?;
    /// for (timestamp, value) in [(10, b"old"), (20, b"new")] {
    ///     let mut it = session.begin(Isolation::Snapshot)?;
    ///     it.put(b"key", value)?;
    ///     it.commit_at(timestamp)?;
    /// }
    /// assert_eq!(session.begin_at(15)?.get(b"key")?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooOld`]: it is below the oldest timestamp; and as [`Session::begin`].
    pub fn begin_at(&mut self, timestamp: u64) -> Result<Transaction<'_>, Error> {
        self.work.open(&self.store.0)?;
        if let Err(error) = self.store.0.versions.timestamps.read_at(timestamp) {
            self.work.close(&self.store.0);
            return Err(error);
        }
        self.work.read_timestamp = Some(timestamp);
        Ok(Transaction::begin(&self.store.0, &mut self.work, Isolation::Snapshot))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.work.close(&self.store.0);
    }
}
