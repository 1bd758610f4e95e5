//! A store of transactions: what begins them, and what all of them share.

use super::coordinator::{self, Coordinator, Protocol};
use super::data::Data;
use super::error::Error;
use super::garbage::{Garbage, Horizon};
use super::table::{Table, Written};
use super::timestamps::Timestamps;
use super::transaction::{Isolation, Transaction};
use crate::lock::Mutex;
use crate::range::{self, RangeLock};
use crate::wait::{Adaptive, Event};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What a store is made with.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is done about a session in the middle of taking an id. [`Protocol::Help`], unless said.
    pub protocol: Protocol,
    /// The maximum number of sessions at once; 16,384 unless said. Each takes 64 bytes from the
    /// beginning.
    pub sessions_max: u32,
    /// The maximum number of transactions at once; further transactions wait until others have
    /// ended. No limit, unless said. (It is the remedy that MongoDB rejected: Andreoli and
    /// Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment".)
    pub active_max: Option<u32>,
    /// A transaction that waits for [`Options::active_max`] for longer than this gets
    /// [`Error::TooMany`]; a second unless said.
    pub active_wait: Duration,
    /// How often [`Store::run`] tries.
    pub tries_max: u32,
    /// Whether a commit is on disk when it returns, if the data component has one. True, unless
    /// said.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            protocol: Protocol::default(),
            sessions_max: 16_384,
            active_max: None,
            active_wait: Duration::from_secs(1),
            tries_max: 1_000,
            sync: true,
        }
    }
}

/// What a store is like at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The id that the next transaction that writes will get.
    pub current_id: u64,
    /// All transactions below this id are over in every snapshot.
    pub oldest_id: u64,
    /// The oldest timestamp that can be read ([`Store::set_oldest_timestamp`]).
    pub oldest_timestamp: u64,
    /// Keys that have versions in memory.
    pub keys: usize,
    /// Transactions that have committed what they wrote.
    pub committed: u64,
    /// Transactions that were told of a conflict or a deadlock.
    pub refused: u64,
}

/// A transactional store of keys and values in order: in memory, or over a data component
/// ([`Store::open`]). Clones are cheap, and are the same store.
///
/// Snapshots work as WiredTiger's do; serializable transactions lock what they read in a
/// [`RangeLock`].
///
/// ```
/// use manx::txn::{Isolation, Options, Store};
///
/// let store = Store::in_memory(Options::default());
/// store.run(Isolation::Snapshot, |accounts| {
///     accounts.put(b"alice", b"10")?;
///     accounts.put(b"bob", b"20")
/// })?;
/// let mut session = store.session()?;
/// let mut transaction = session.begin(Isolation::Snapshot)?;
/// assert_eq!(transaction.get(b"bob")?.as_deref(), Some(&b"20"[..]));
/// let all: Result<Vec<_>, _> = transaction.scan::<[u8], _>(..).collect();
/// assert_eq!(all?.len(), 2);
/// # Ok::<(), manx::txn::Error>(())
/// ```
#[derive(Clone)]
pub struct Store(pub(super) Arc<Inner>);

/// What all that use a store share.
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) ids: Arc<Coordinator>,
    pub(super) table: Table,
    pub(super) ranges: RangeLock<Vec<u8>>,
    pub(super) timestamps: Timestamps,
    pub(super) horizon: Horizon,
    /// What sessions that ended had to clean.
    pub(super) left: Mutex<Garbage>,
    active: AtomicU32,
    ended: Event,
    pub(super) committed: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl fmt::Debug for Store {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Store").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Store {
    /// Makes an empty store in memory. Its entries are lost when the last clone is dropped.
    pub fn in_memory(options: Options) -> Store {
        Store::new(options, None)
    }

    /// Opens a store over a data component, with the entries that this has.
    ///
    /// ```
    /// use manx::txn::{Bounds, Change, Data, DataError, Entry, Isolation, Options, Store, Value};
    /// use std::collections::BTreeMap;
    /// use std::sync::Mutex;
    ///
    /// /// The simplest one there is.
    /// #[derive(Default)]
    /// struct Map(Mutex<BTreeMap<Value, Value>>);
    ///
    /// impl Data for Map {
    ///     fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
    ///         Ok(self.0.lock().unwrap().get(key).cloned())
    ///     }
    ///     fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
    ///         let map = self.0.lock().unwrap();
    ///         let range = map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
    ///         Ok(if descending { range.rev().take(limit).collect() } else { range.take(limit).collect() })
    ///     }
    ///     fn apply(&self, batch: &[Change], _: bool) -> Result<(), DataError> {
    ///         let mut map = self.0.lock().unwrap();
    ///         for change in batch.iter().cloned() {
    ///             match change {
    ///                 Change::Put { key, value } => drop(map.insert(key, value)),
    ///                 Change::Delete { key } => drop(map.remove(&key)),
    ///             }
    ///         }
    ///         Ok(())
    ///     }
    ///     fn checkpoint(&self) -> Result<(), DataError> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let store = Store::open(Options::default(), Box::new(Map::default()));
    /// store.run(Isolation::Snapshot, |it| it.put(b"k", b"v"))?;
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    pub fn open(options: Options, data: Box<dyn Data>) -> Store {
        Store::new(options, Some(data))
    }

    fn new(options: Options, data: Option<Box<dyn Data>>) -> Store {
        Store(Arc::new(Inner {
            options,
            ids: Coordinator::new(options.protocol, options.sessions_max),
            table: Table::new(data),
            ranges: RangeLock::with(range::Options::new().detecting_deadlocks()),
            timestamps: Timestamps::default(),
            horizon: Horizon::default(),
            left: Mutex::new(Garbage::default()),
            active: AtomicU32::new(0),
            ended: Event::new(),
            committed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// A session: for one thread at a time, and one transaction at a time.
    ///
    /// # Errors
    /// [`Error::TooManySessions`].
    pub fn session(&self) -> Result<Session, Error> {
        let ids = self.0.ids.session().map_err(|error| Error::TooManySessions { limit: error.limit })?;
        let work = Work { ids, written: Vec::new(), garbage: Garbage::default(), is_open: false, read_timestamp: None };
        Ok(Session { store: self.clone(), work })
    }

    /// Does what `work` does in a transaction, commits it, and returns what it returned. If that
    /// fails for a reason that may pass ([`Error::is_retryable`]), it waits a little, more each
    /// time, and begins again.
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

    /// Makes a recovery point of what was committed.
    ///
    /// # Errors
    /// The data component's.
    pub fn checkpoint(&self) -> Result<(), Error> {
        Ok(self.0.table.data.as_ref().map_or(Ok(()), |data| data.checkpoint())?)
    }

    /// No transaction will read at an earlier timestamp than this one, or commit at it or an
    /// earlier one: what only those could see is not kept, and a transaction that reads at
    /// [`Stats::oldest_timestamp`] sees what no commit changes any more. It never goes back, and
    /// comes into effect when the commits that have begun at earlier timestamps are over.
    pub fn set_oldest_timestamp(&self, timestamp: u64) {
        self.0.timestamps.set_oldest(timestamp);
    }

    /// What it is like now.
    pub fn stats(&self) -> Stats {
        let inner = &*self.0;
        Stats {
            current_id: inner.ids.current(),
            oldest_id: inner.ids.oldest(),
            oldest_timestamp: inner.timestamps.settled(),
            keys: inner.table.keys.len(),
            committed: inner.committed.load(Ordering::Relaxed),
            refused: inner.refused.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Waits until one more transaction may be.
    fn admit(&self) -> Result<(), Error> {
        let Some(limit) = self.options.active_max else { return Ok(()) };
        let enter = || {
            // Relaxed: a count.
            let entered = self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < limit).then_some(now + 1));
            entered.is_ok()
        };
        if enter() {
            return Ok(());
        }
        let limit_ns = u64::try_from(self.options.active_wait.as_nanos()).unwrap_or(u64::MAX);
        let deadline_ns = platform::clock::now_ns().saturating_add(limit_ns);
        let mut backoff = self.ended.start();
        while !enter() {
            let now_ns = platform::clock::now_ns();
            if now_ns >= deadline_ns {
                return Err(Error::TooMany { limit });
            }
            backoff.wait_at_most(deadline_ns - now_ns);
        }
        Ok(())
    }

    /// A transaction is over.
    fn release_admission(&self) {
        if self.options.active_max.is_some() {
            self.active.fetch_sub(1, Ordering::Relaxed);
            self.ended.signal_one();
        }
    }
}

/// Runs transactions, one at a time: [`Store::session`] makes it. It may move between threads.
#[derive(Debug)]
pub struct Session {
    pub(super) store: Store,
    pub(super) work: Work,
}

/// What a session's transactions do. It is the session's, so that what one has written is taken
/// back also if it is forgotten ([`std::mem::forget`]).
#[derive(Debug)]
pub(super) struct Work {
    pub(super) ids: coordinator::Session,
    pub(super) written: Vec<Written>,
    pub(super) garbage: Garbage,
    /// A transaction has begun and is not over: it was admitted, and may read at a timestamp.
    is_open: bool,
    pub(super) read_timestamp: Option<u64>,
}

impl Session {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::TooMany`], if [`Options::active_max`] is set.
    #[inline]
    pub fn begin(&mut self, isolation: Isolation) -> Result<Transaction<'_>, Error> {
        self.work.open(&self.store.0)?;
        Ok(Transaction::begin(self, isolation))
    }

    /// Begins a transaction of [`Isolation::Snapshot`] that sees, of what was committed with a
    /// timestamp, nothing later than this.
    ///
    /// # Errors
    /// [`Error::TooOld`]: it is below the oldest timestamp; and as [`Session::begin`].
    pub fn begin_at(&mut self, timestamp: u64) -> Result<Transaction<'_>, Error> {
        self.work.open(&self.store.0)?;
        if let Err(error) = self.store.0.timestamps.read_at(timestamp) {
            self.work.close(&self.store.0);
            return Err(error);
        }
        self.work.read_timestamp = Some(timestamp);
        Ok(Transaction::begin(self, Isolation::Snapshot))
    }

    /// Returns the number of this session's changes that are still to be cleaned up: they may have
    /// left versions that no transaction needs. For monitoring.
    pub fn unfinished(&self) -> usize {
        self.work.garbage.len()
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Work {
    /// A transaction begins.
    #[inline]
    fn open(&mut self, inner: &Inner) -> Result<(), Error> {
        // The one before was forgotten.
        self.close(inner);
        inner.admit()?;
        self.is_open = true;
        Ok(())
    }

    /// The transaction is over, if there is one. What it has written and not committed is gone, and
    /// no transaction sees it.
    #[inline]
    pub(super) fn close(&mut self, inner: &Inner) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        if let Some(id) = self.ids.id() {
            let guard = &crossbeam_epoch::pin();
            let retired = &mut self.garbage.retired;
            self.written.iter().for_each(|it| it.versions.take_back(id, retired, guard));
            self.ids.end();
            self.garbage.add(id, &mut self.written, inner);
        }
        self.ids.unpin();
        if let Some(timestamp) = self.read_timestamp.take() {
            inner.timestamps.done(timestamp);
        }
        inner.release_admission();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.work.close(&self.store.0);
        self.work.garbage.leave(&self.store.0);
    }
}
