//! A data component in an etcd cluster: what was committed is on a majority of its members, and
//! another server goes on with it when this one dies.
//!
//! ```text
//!   append ──► entries ──► queue ──► a transaction of etcd for all that came ──► wait returns     get, scan ──► entries
//!              (in memory)           (one thread; holds only for the owner)                       (while the lease holds)
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `keys.rs` | the store's keys in etcd, and the record of its owner |
//! | `chain.rs` | taking over, and committing: transactions that form a chain; fencing |
//! | `follow.rs` | reading all entries, and following their owner's changes |
//! | `parts.rs` | how a batch is cut that is too large for one transaction |
//! | `queue.rs` | groups of batches, and what threads wait for |
//! | `owner.rs` | the thread that does it, and the lease |
//!
//! One server at a time owns a store, by a lease of a few seconds. All entries are in its memory:
//! they are read before it takes over, and reads never ask etcd. Nothing here replicates or votes:
//! that is etcd's.
//!
//! Invariants:
//! 1. A batch whose `wait` has returned is in etcd, and so is each batch before it: also if the
//!    owner, or a minority of the members, dies at any moment.
//! 2. Nothing of an owner gets into etcd after another one has taken over (`chain.rs`).
//! 3. A read returns what the store had at some moment of the call: it is answered only while no
//!    other server can own the store (`owner.rs`).
//! 4. After an error of a commit nothing is changed any more and nothing is read: what is in memory
//!    may not be in etcd. Opening the store again finds out what is there. Only if etcd has no room
//!    (`chain.rs`) the owner stays: it reads, and writes again when there is room.

mod chain;
mod follow;
mod keys;
mod owner;
mod parts;
mod queue;

use super::{Batch, Bounds, Change, Data, DataError, Entry, Limits, Recovered, Value};
use crate::etcd::Address;
use crate::etcd::client::{Client, SILENCE};
use chain::Site;
use keys::Keys;
use owner::{Call, Manner, Shared};
use platform::clock::now_ns;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// With a key and a value of these lengths a request is still within the 1.5 MiB that etcd allows
/// by default.
const LIMITS: Limits =
    Limits { key_bytes: 64 << 10, value_bytes: 1 << 20, batch_bytes: 1 << 30, changes: 1 << 24 };

/// How a store in etcd works.
///
/// ```
/// use manx::txn::etcd::EtcdOptions;
/// use std::time::Duration;
///
/// let patient = EtcdOptions::new().lease_s(10).patience(Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct EtcdOptions {
    lease_s: u16,
    patience: Duration,
    at_once: bool,
    waiting: Option<fn(&str)>,
    lost: Option<fn(&DataError)>,
}

impl EtcdOptions {
    /// The defaults.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// const DEFAULT: EtcdOptions = EtcdOptions::new();
    /// ```
    pub const fn new() -> EtcdOptions {
        let patience = Duration::from_secs(10);
        EtcdOptions { lease_s: 3, patience, at_once: false, waiting: None, lost: None }
    }

    /// Sets for how many seconds the store is this server's after it was last heard of. A server
    /// that waits takes over after about this time. The default is 3; etcd gives no lease below
    /// one and a half of its election timeouts, which is 2 by default.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// let slow_to_change = EtcdOptions::new().lease_s(30);
    /// ```
    pub const fn lease_s(mut self, seconds: u16) -> EtcdOptions {
        self.lease_s = if seconds == 0 { 1 } else { seconds };
        self
    }

    /// Sets for how long a commit is tried while etcd does not answer. Then its outcome is unknown,
    /// and nothing is changed any more. The default is 10 s.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// let short = EtcdOptions::new().patience(std::time::Duration::from_secs(3));
    /// ```
    pub const fn patience(mut self, time: Duration) -> EtcdOptions {
        self.patience = time;
        self
    }

    /// Sets whether the store is taken from a server that still has it. By default this server
    /// waits until that one is gone. The older one notices at its next write, or when it next
    /// renews its lease; until then its reads may be old.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// let by_force = EtcdOptions::new().at_once(true);
    /// ```
    pub const fn at_once(mut self, at_once: bool) -> EtcdOptions {
        self.at_once = at_once;
        self
    }

    /// Sets what is called, once and with the store's address, when another server has the store
    /// and this one waits.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// let telling = EtcdOptions::new().when_waiting(|place| println!("{place}: waiting"));
    /// ```
    pub const fn when_waiting(mut self, tell: fn(&str)) -> EtcdOptions {
        self.waiting = Some(tell);
        self
    }

    /// Sets what is called, once, when the store is no longer this server's, or etcd has not
    /// answered in time: nothing is read or changed any more.
    ///
    /// ```
    /// use manx::txn::etcd::EtcdOptions;
    ///
    /// let ending = EtcdOptions::new().when_lost(|error| {
    ///     eprintln!("{error}");
    ///     std::process::exit(1);
    /// });
    /// ```
    pub const fn when_lost(mut self, tell: fn(&DataError)) -> EtcdOptions {
        self.lost = Some(tell);
        self
    }
}

impl Default for EtcdOptions {
    fn default() -> EtcdOptions {
        EtcdOptions::new()
    }
}

/// An ordered store below a prefix of an etcd cluster.
///
/// ```no_run
/// use manx::etcd::Address;
/// use manx::txn::etcd::{Etcd, EtcdOptions};
/// use manx::txn::{Isolation, Options, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address: Address = "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/shop".parse()?;
/// let data = Etcd::open(&address, EtcdOptions::new())?;
/// // Waits while another server has the store.
/// let store = Store::open(Options::default(), Box::new(data))?;
/// store.run(Isolation::Snapshot, |it| it.put(b"key", b"value"))?;
/// # Ok(())
/// # }
/// ```
pub struct Etcd {
    place: String,
    patience: Duration,
    shared: Arc<Shared>,
    calls: Option<UnboundedSender<Call>>,
    thread: Option<JoinHandle<()>>,
}

impl Etcd {
    /// Finds the store, or the place for it. It is not this server's before [`Data::recover`].
    ///
    /// ```
    /// use manx::txn::etcd::{Etcd, EtcdOptions};
    /// use std::time::Duration;
    ///
    /// let nowhere = "etcd://127.0.0.1:1/shop".parse()?;
    /// let hasty = EtcdOptions::new().patience(Duration::from_millis(100));
    /// assert!(Etcd::open(&nowhere, hasty).is_err());
    /// # Ok::<(), manx::etcd::AddressError>(())
    /// ```
    ///
    /// # Errors
    /// Etcd does not answer, or does not let this client in; the prefix has keys of something else.
    pub fn open(address: &Address, options: EtcdOptions) -> Result<Etcd, DataError> {
        let place = address.to_string();
        let failed = |what: String| DataError::new(format!("{place}: {what}"));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(format!("no runtime: {error}")))?;
        // Connections belong to the runtime.
        let client = {
            let _inside = runtime.enter();
            Client::new(address, SILENCE).map_err(failed)?
        };
        let shared = Arc::new(Shared::default());
        let site = Site {
            client: Arc::new(client),
            keys: Keys::new(address.prefix()),
            place: place.clone(),
            patience: options.patience,
            queue: Arc::clone(&shared.queue),
        };
        runtime.block_on(site.find()).map_err(DataError::new)?;
        let (calls, receiver) = unbounded_channel();
        let manner = Manner {
            ttl_s: options.lease_s.into(),
            at_once: options.at_once,
            waiting: options.waiting,
            lost: options.lost,
        };
        let its = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name("manx-etcd".into())
            .spawn(move || runtime.block_on(owner::run(site, its, manner, receiver)));
        let thread = started.map_err(|error| {
            let what = format!("no thread can be started: {error}: end some, or raise the limit");
            DataError::new(format!("{place}: {what}"))
        })?;
        Ok(Etcd { place, patience: options.patience, shared, calls: Some(calls), thread: Some(thread) })
    }

    /// Reads the entries. By Invariants 3 and 4.
    fn read<T>(&self, read: impl Fn(&BTreeMap<Value, Value>) -> T) -> Result<T, DataError> {
        self.while_owned(|| read(&self.shared.entries.read()))
    }

    /// Does something that was done while no other server had the store, once this returns.
    fn while_owned<T>(&self, act: impl Fn() -> T) -> Result<T, DataError> {
        let mut until_ns = None;
        loop {
            let done = act();
            if self.shared.lease.holds() {
                return Ok(done);
            }
            if let Some(error) = self.shared.queue.refusal() {
                return Err(error);
            }
            let patience_ns = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
            let until_ns = *until_ns.get_or_insert_with(|| now_ns().saturating_add(patience_ns));
            if now_ns() > until_ns {
                let what = "etcd does not answer, so another server may have the store: see to etcd";
                return Err(DataError::new(format!("{}: {what}", self.place)));
            }
            self.shared.lease.wait();
        }
    }
}

impl Data for Etcd {
    fn recover(&self) -> Result<Recovered, DataError> {
        let (answer, received) = mpsc::channel();
        let gone = || DataError::new(format!("{}: the store is closed", self.place));
        let gone = || self.shared.queue.refusal().unwrap_or_else(gone);
        let calls = self.calls.as_ref().ok_or_else(gone)?;
        calls.send(answer).map_err(|_| gone())?;
        received.recv().map_err(|_| gone())?
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        self.read(|entries| keys.iter().map(|key| entries.get(*key).cloned()).collect())
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        if is_empty(bounds) {
            return Ok(Vec::new());
        }
        self.read(|entries| {
            let range = entries.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
            if descending { range.rev().take(limit).collect() } else { range.take(limit).collect() }
        })
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        check(&batch)?;
        self.shared.queue.append(&batch, || {
            let mut entries = self.shared.entries.write();
            for change in batch.changes {
                match change {
                    Change::Put { key, value } => drop(entries.insert(key.clone(), value.clone())),
                    Change::Delete { key } => drop(entries.remove(key)),
                }
            }
        })
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        self.shared.queue.wait(place)
    }

    fn durable(&self) -> u64 {
        self.shared.queue.durable()
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn confirm(&self) -> Result<(), DataError> {
        self.while_owned(|| ())
    }

    fn checkpoint(&self) -> Result<(), DataError> {
        self.wait(self.shared.queue.last_place())
    }
}

/// Whether no key can be in the bounds; a map panics at some of those.
fn is_empty((from, to): Bounds<'_>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
    }
}

/// Whether etcd takes the changes.
fn check(batch: &Batch<'_>) -> Result<(), DataError> {
    let mut bytes = 0;
    for change in batch.changes {
        let (key, value) = match change {
            Change::Put { key, value } => (key.len(), value.len()),
            Change::Delete { key } => (key.len(), 0),
        };
        bytes += key + value;
        if key > LIMITS.key_bytes || value > LIMITS.value_bytes {
            let (key_max, value_max) = (LIMITS.key_bytes, LIMITS.value_bytes);
            return Err(DataError::new(format!(
                "etcd takes keys of {key_max} bytes and values of {value_max}: a key has {key}, its value {value}"
            )));
        }
    }
    if batch.changes.len() > LIMITS.changes || bytes > LIMITS.batch_bytes {
        let text = format!("a batch of {} changes, {bytes} bytes: that is too large", batch.changes.len());
        return Err(DataError::new(text));
    }
    Ok(())
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.shared.queue.close();
        // The thread may wait for the next call.
        drop(self.calls.take());
        // A panic of it was printed where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Etcd").field("place", &self.place).finish_non_exhaustive()
    }
}
