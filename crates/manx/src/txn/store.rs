//! A store of transactions: what its sessions and transactions share.

use super::collector::{Collector, Look};
use super::component::Component;
use super::coordinator::{Coordinator, Protocol, Readers};
use super::data::{Data, DataError};
use super::error::Error;
use super::garbage::VersionStore;
use super::table::Table;
use crate::range::{self, RangeLock};
use crate::wait::Event;
use platform::clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How a store is to be made.
///
/// ```
/// use manx::txn::{Options, Store};
/// use std::time::Duration;
///
/// let options = Options::new().active_max(8).active_wait(Duration::from_millis(50));
/// let store = Store::in_memory(options);
/// assert!(store.session().is_ok());
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Options {
    protocol: Protocol,
    pub(super) sessions_max: u32,
    active_max: Option<u32>,
    active_wait: Duration,
    pub(super) tries_max: u32,
    pub(super) sync: bool,
    pub(super) lock_wait: Option<Duration>,
    pub(super) ranges_max: usize,
    collect_every: Option<Duration>,
}

impl Options {
    /// The defaults.
    pub const fn new() -> Options {
        Options {
            protocol: Protocol::Help,
            sessions_max: 16_384,
            active_max: None,
            active_wait: Duration::from_secs(1),
            tries_max: 1_000,
            sync: true,
            lock_wait: None,
            ranges_max: 4_096,
            collect_every: Some(Duration::from_millis(50)),
        }
    }

    /// Sets the maximum number of sessions at once; the default is 16,384. Each takes 64 bytes from
    /// the beginning.
    pub const fn sessions_max(mut self, sessions: u32) -> Options {
        self.sessions_max = sessions;
        self
    }

    /// Sets the maximum number of transactions at once; further transactions wait until others have
    /// ended. By default there is no limit. (It is the remedy that MongoDB rejected: Andreoli and
    /// Cucinotta, "Inducing Huge Tail Latency on a MongoDB deployment".)
    ///
    /// ```
    /// use manx::txn::{Error, Isolation, Options, Store};
    /// use std::time::Duration;
    ///
    /// let store = Store::in_memory(Options::new().active_max(1).active_wait(Duration::from_millis(1)));
    /// let (mut one, mut other) = (store.session()?, store.session()?);
    /// let first = one.begin(Isolation::Snapshot)?;
    /// assert!(matches!(other.begin(Isolation::Snapshot), Err(Error::TooMany { limit: 1 })));
    /// # drop(first);
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn active_max(mut self, transactions: u32) -> Options {
        self.active_max = Some(transactions);
        self
    }

    /// Sets how long a transaction waits for [`Options::active_max`] before it gets
    /// [`Error::TooMany`]; the default is a second.
    pub const fn active_wait(mut self, time: Duration) -> Options {
        self.active_wait = time;
        self
    }

    /// Sets how long a serializable transaction waits for a key range that others hold before it
    /// gets [`Error::TimedOut`]. By default it waits until they have ended; circles of waiting
    /// transactions are found at once.
    ///
    /// ```
    /// use manx::txn::{Error, Isolation, Options, Store};
    /// use std::time::Duration;
    ///
    /// let store = Store::in_memory(Options::new().lock_wait(Duration::from_millis(1)));
    /// let (mut one, mut other) = (store.session()?, store.session()?);
    /// let mut reader = one.begin(Isolation::Serializable)?;
    /// reader.get(b"key")?;
    /// let mut writer = other.begin(Isolation::Serializable)?;
    /// assert!(matches!(writer.put(b"key", b"1"), Err(Error::TimedOut { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn lock_wait(mut self, time: Duration) -> Options {
        self.lock_wait = Some(time);
        self
    }

    /// Sets the number of key ranges that a serializable transaction holds before neighbours become
    /// one range, with all keys that lie between them, as far as no other transaction holds any of
    /// these; the default is 4,096. So a transaction that reads or writes very many keys takes
    /// little memory for its locks, and leaves room for the locks of others. See
    /// [`Owner::escalate`](crate::range::Owner::escalate).
    ///
    /// ```
    /// use manx::txn::{Error, Isolation, Options, Store};
    /// use std::time::Duration;
    ///
    /// let options = Options::new().ranges_max(2).lock_wait(Duration::from_millis(1));
    /// let store = Store::in_memory(options);
    /// let (mut one, mut other) = (store.session()?, store.session()?);
    /// let mut reader = one.begin(Isolation::Serializable)?;
    /// for key in [b"a", b"c", b"e"] {
    ///     reader.get(key)?;
    /// }
    /// // It holds all from `a` to `e` now, and no more.
    /// let mut writer = other.begin(Isolation::Serializable)?;
    /// writer.put(b"f", b"1")?;
    /// assert!(matches!(writer.put(b"b", b"1"), Err(Error::TimedOut { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn ranges_max(mut self, ranges: usize) -> Options {
        self.ranges_max = ranges;
        self
    }

    /// Sets how often [`Store::run`] tries, at least once; the default is 1,000.
    pub const fn tries_max(mut self, tries: u32) -> Options {
        self.tries_max = tries;
        self
    }

    /// Sets whether a commit is on disk when it returns, if the data component has a disk. By
    /// default it is.
    pub const fn sync(mut self, sync: bool) -> Options {
        self.sync = sync;
        self
    }

    /// Sets how often a thread of the store frees what commits have left behind; the default is 50
    /// ms. The thread sleeps while nothing is left. With `None` there is no thread: commits free as
    /// much as they leave, and [`Store::collect`] frees the rest.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::new().collect_every(None));
    /// for value in [b"1", b"2"] {
    ///     store.run(Isolation::Snapshot, |it| it.put(b"key", value))?;
    /// }
    /// assert!(store.stats().garbage_bytes > 0);
    /// store.collect();
    /// assert_eq!(store.stats().garbage_bytes, 0);
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    pub const fn collect_every(mut self, period: Option<Duration>) -> Options {
        self.collect_every = period;
        self
    }

    /// Sets what is done about a session in the middle of taking an id; the default is
    /// [`Protocol::Help`].
    // For the packages `serve` and `workload`, which compare the protocols.
    #[doc(hidden)]
    pub const fn protocol(mut self, protocol: Protocol) -> Options {
        self.protocol = protocol;
        self
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

/// What a store is like at some moment.
///
/// ```
/// use manx::txn::{Isolation, Options, Store};
///
/// let store = Store::in_memory(Options::default());
/// let mut session = store.session()?;
/// let mut transaction = session.begin(Isolation::Snapshot)?;
/// transaction.put(b"a", b"1")?;
/// transaction.commit()?;
/// let stats = store.stats();
/// assert_eq!((stats.committed, stats.refused), (1, 0));
/// # Ok::<(), manx::txn::Error>(())
/// ```
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
    /// Changes of keys that may have left versions that no transaction needs.
    pub garbage_keys: usize,
    /// The memory of these versions, and of those that are about to be freed, in bytes.
    pub garbage_bytes: usize,
    /// Transactions that have committed what they wrote.
    pub committed: u64,
    /// Conflicts and deadlocks that transactions got.
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
    /// Before the versions: its thread has them, and ends first.
    pub(super) collector: Collector,
    pub(super) versions: Arc<VersionStore>,
    pub(super) ranges: RangeLock<Vec<u8>>,
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
        Store::new(options, None, 1)
    }

    /// Opens a store over a data component, with the entries that this has: takes it over from the
    /// store that had it before, if there was one.
    ///
    /// ```
    /// # use manx::txn::{Batch, Bounds, Data, DataError, Entry, Error, Recovered, Value};
    /// use manx::txn::{Isolation, Options, Store};
    /// # struct Component;
    /// # impl Data for Component {
    /// #     fn recover(&self) -> Result<Recovered, DataError> { Ok(Recovered::default()) }
    /// #     fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
    /// #         Ok(vec![None; keys.len()])
    /// #     }
    /// #     fn scan(&self, _: Bounds<'_>, _: bool, _: usize) -> Result<Vec<Entry>, DataError> {
    /// #         Ok(Vec::new())
    /// #     }
    /// #     fn append(&self, _: Batch<'_>) -> Result<u64, DataError> { Ok(1) }
    /// #     fn wait(&self, _: u64) -> Result<(), DataError> { Ok(()) }
    /// #     fn durable(&self) -> u64 { 1 }
    /// # }
    ///
    /// fn count_up(data: Box<dyn Data>) -> Result<u8, Error> {
    ///     let store = Store::open(Options::default(), data)?;
    ///     store.run(Isolation::Serializable, |it| {
    ///         let count = it.get(b"count")?.map_or(0, |count| count[0]) + 1;
    ///         it.put(b"count", &[count])?;
    ///         Ok(count)
    ///     })
    /// }
    /// # assert_eq!(count_up(Box::new(Component)), Ok(1));
    /// ```
    ///
    /// # Errors
    /// The data component cannot be taken over.
    pub fn open(options: Options, data: Box<dyn Data>) -> Result<Store, DataError> {
        let (component, recovered) = Component::open(data, options.sync)?;
        let store = Store::new(options, Some(component), recovered.last_id + 1);
        store.set_oldest_timestamp(recovered.oldest_timestamp.max(recovered.timestamp));
        Ok(store)
    }

    fn new(options: Options, data: Option<Component>, first_id: u64) -> Store {
        // One more, with which the collector looks.
        let sessions = options.sessions_max.max(1).saturating_add(1);
        let ids = Coordinator::starting_at(first_id, options.protocol, sessions);
        let readers = Readers::new(ids.session().expect("the first one"));
        Store(Arc::new(Inner {
            options,
            collector: Collector::new(options.collect_every),
            versions: Arc::new(VersionStore::new(Table::new(data), ids, readers)),
            ranges: RangeLock::with(range::Options::new().detecting_deadlocks()),
            active: AtomicU32::new(0),
            ended: Event::new(),
            committed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Makes a recovery point of what was committed.
    ///
    /// # Errors
    /// The data component's.
    pub fn checkpoint(&self) -> Result<(), Error> {
        Ok(self.0.versions.table.data.as_ref().map_or(Ok(()), |data| data.checkpoint())?)
    }

    /// Returns once what was committed with this place is durable, and all before it
    /// ([`Transaction::commit_early`](super::Transaction::commit_early)).
    ///
    /// # Errors
    /// It is not durable, or that is not known
    /// ([`DataError::outcome`](super::DataError::outcome)).
    pub fn wait(&self, place: u64) -> Result<(), Error> {
        self.0.wait(place)
    }

    /// No transaction will read at an earlier timestamp than this one, or commit at it or an
    /// earlier one: what only those could see is not kept, and a transaction that reads at
    /// [`Stats::oldest_timestamp`] sees what no commit changes any more. It never goes back, and
    /// comes into effect when the commits that have begun at earlier timestamps are over. Over a
    /// data component it is kept along with the next commit.
    ///
    /// ```
    /// use manx::txn::{Error, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.set_oldest_timestamp(10);
    /// let mut session = store.session()?;
    /// assert_eq!(session.begin_at(9).err(), Some(Error::TooOld { asked: 9, oldest: 10 }));
    /// assert!(session.begin_at(10).is_ok());
    /// # Ok::<(), manx::txn::Error>(())
    /// ```
    pub fn set_oldest_timestamp(&self, timestamp: u64) {
        self.0.versions.timestamps.set_oldest(timestamp);
    }

    /// Frees what commits have left behind, as far as no transaction needs it and no thread reads
    /// it, for a store without a thread that does it ([`Options::collect_every`]).
    pub fn collect(&self) {
        while self.0.versions.collect() == Look::More {}
    }

    /// What it is like now. Looks at each session.
    pub fn stats(&self) -> Stats {
        let inner = &*self.0;
        let left = inner.versions.left();
        Stats {
            current_id: inner.versions.ids.current(),
            oldest_id: inner.versions.ids.oldest(),
            oldest_timestamp: inner.versions.timestamps.settled(),
            keys: inner.versions.table.keys.len(),
            garbage_keys: left.keys,
            garbage_bytes: left.bytes,
            committed: inner.committed.load(Ordering::Relaxed),
            refused: inner.refused.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Waits until what has this place is durable, if it is to be.
    #[inline]
    pub(super) fn wait(&self, place: u64) -> Result<(), Error> {
        match &self.versions.table.data {
            Some(data) if place > 0 => Ok(data.wait(place)?),
            _ => Ok(()),
        }
    }

    /// Waits until one more transaction may be.
    pub(super) fn admit(&self) -> Result<(), Error> {
        let Some(limit) = self.options.active_max else { return Ok(()) };
        let enter = || {
            // Relaxed: a count.
            let entered = self
                .active
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < limit).then_some(now + 1));
            entered.is_ok()
        };
        if enter() {
            return Ok(());
        }
        let limit_ns = clock::duration_ns(self.options.active_wait);
        let deadline_ns = clock::now_ns().saturating_add(limit_ns);
        let mut backoff = self.ended.start();
        while !enter() {
            let now_ns = clock::now_ns();
            if now_ns >= deadline_ns {
                return Err(Error::TooMany { limit });
            }
            backoff.wait_at_most_ns(deadline_ns - now_ns);
        }
        Ok(())
    }

    /// A transaction is over.
    pub(super) fn release_admission(&self) {
        if self.options.active_max.is_some() {
            self.active.fetch_sub(1, Ordering::Relaxed);
            self.ended.signal_one();
        }
    }
}
