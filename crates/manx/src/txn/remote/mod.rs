//! What data components share whose data other processes keep: etcd, or PostgreSQL.
//!
//! ```text
//!   append ──► entries ──► queue ──► one transaction there for all that came ──► wait returns     get, scan ──► entries
//!              (in memory)           (one thread; holds only for the owner)                       (while the lease holds)
//! ```
//!
//! | file | what |
//! | --- | --- |
//! | `options.rs` | how a server owns a store |
//! | `queue.rs` | groups of batches, and what threads wait for |
//! | `owner.rs` | the thread that takes a store over and commits; what it asks of a backend |
//! | `lease.rs` | until when reads are answered |
//!
//! One server at a time owns a store, by a lease of a few seconds. All entries are in its memory:
//! they are read when it takes over, and reads ask nobody. Nothing here replicates or votes: that
//! is the other side's.
//!
//! Invariants:
//! 1. A batch whose `wait` has returned is durable on the other side, and so is each batch before
//!    it: also if the owner dies at any moment.
//! 2. Nothing of an owner is changed there after another one has taken over: a backend commits only
//!    what compares the owner's record (`etcd/chain.rs`, `postgres/table.rs`).
//! 3. A read returns what the store had at some moment of the call: it is answered only while no
//!    other server can own the store (`lease.rs`).
//! 4. After an error of a commit nothing is changed any more and nothing is read: what is in memory
//!    may not be there. Opening the store again finds out what is. Only a lack of room there, if
//!    the backend tells it apart (`etcd/chain.rs`), is waited for.

pub(super) mod lease;
pub(super) mod options;
pub(super) mod owner;
pub(super) mod queue;

use super::{Batch, Bounds, Change, Data, DataError, Entry, Limits, Recovered, Value};
use options::RemoteOptions;
use owner::{Backend, Call, Entries, Shared};
use platform::clock::now_ns;
use queue::Queue;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// What a kind of backend is called, and what it takes.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) limits: Limits,
}

/// A data component whose data other processes keep: made by `etcd::open` or `postgres::open`.
///
/// Its entries are in memory as well, and reads ask nobody. One server at a time owns it.
pub struct Remote {
    kind: &'static Kind,
    place: String,
    options: RemoteOptions,
    shared: Arc<Shared>,
    calls: Option<UnboundedSender<Call>>,
    thread: Option<JoinHandle<()>>,
}

/// A runtime for one store's thread.
pub(super) fn runtime(place: &str) -> Result<Runtime, DataError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| DataError::new(format!("{place}: no runtime: {error}")))
}

impl Remote {
    /// Starts the thread. The store is not this server's before [`Data::recover`].
    pub(super) fn start<B: Backend + Send + 'static>(
        kind: &'static Kind,
        runtime: Runtime,
        backend: B,
        queue: Arc<Queue>,
        options: RemoteOptions,
    ) -> Result<Remote, DataError> {
        let (place, shared) = (backend.place().to_owned(), Arc::new(Shared::new(queue)));
        let (calls, receiver) = unbounded_channel();
        let its = Arc::clone(&shared);
        let started = thread::Builder::new()
            .name(format!("manx-{}", kind.name))
            .spawn(move || runtime.block_on(owner::run(backend, its, options, receiver)));
        let thread = started.map_err(|error| {
            let what = format!("no thread can be started: {error}: end some, or raise the limit");
            DataError::new(format!("{place}: {what}"))
        })?;
        Ok(Remote { kind, place, options, shared, calls: Some(calls), thread: Some(thread) })
    }

    /// Reads the entries. By Invariants 3 and 4.
    fn read<T>(&self, read: impl Fn(&Entries) -> T) -> Result<T, DataError> {
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
            let patience_ns = u64::try_from(self.options.patience.as_nanos()).unwrap_or(u64::MAX);
            let until_ns = *until_ns.get_or_insert_with(|| now_ns().saturating_add(patience_ns));
            if now_ns() > until_ns {
                let (place, name) = (&self.place, self.kind.name);
                return Err(DataError::new(format!(
                    "{place}: {name} does not answer, so another server may have the store: see to {name}"
                )));
            }
            self.shared.lease.wait();
        }
    }

    /// Whether the other side takes the changes.
    fn check(&self, batch: &Batch<'_>) -> Result<(), DataError> {
        let Kind { name, limits, .. } = self.kind;
        let mut bytes = 0;
        for change in batch.changes {
            let (key, value) = match change {
                Change::Put { key, value } => (key.len(), value.len()),
                Change::Delete { key } => (key.len(), 0),
            };
            bytes += key + value;
            if key > limits.key_bytes || value > limits.value_bytes {
                let (key_max, value_max) = (limits.key_bytes, limits.value_bytes);
                return Err(DataError::new(format!(
                    "{name} takes keys of {key_max} bytes and values of {value_max}: a key has {key}, its value {value}"
                )));
            }
        }
        if batch.changes.len() > limits.changes || bytes > limits.batch_bytes {
            let count = batch.changes.len();
            return Err(DataError::new(format!(
                "a batch of {count} changes, {bytes} bytes: that is too large"
            )));
        }
        Ok(())
    }
}

impl Data for Remote {
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
        self.check(&batch)?;
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
        self.kind.limits
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

impl Drop for Remote {
    fn drop(&mut self) {
        self.shared.queue.close();
        // The thread may wait for the next call.
        drop(self.calls.take());
        // A panic of it was printed where it happened.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Remote").field("place", &self.place).finish_non_exhaustive()
    }
}
