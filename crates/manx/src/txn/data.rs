//! What a store of transactions stands on: an ordered store of committed data (a *data component*,
//! DC, in the words of Lomet and Mokbel, "Locking Key Ranges with Unbundled Transaction Services",
//! 2009).
//!
//! It knows no transactions: it gets what was committed, in batches, and gives back what it has.
//! Everything that is not yet committed, and every version that some snapshot still needs, is above
//! it.

use std::ops::Bound;
use std::sync::Arc;

/// Bytes, of a key or a value, shared rather than copied.
///
/// ```
/// use manx::txn::Value;
///
/// let value = Value::from(&b"seven"[..]);
/// assert_eq!(*value, *b"seven");
/// ```
pub type Value = Arc<[u8]>;

/// A key and its value.
pub type Entry = (Value, Value);

/// Where a range of keys begins and ends.
///
/// ```
/// use manx::txn::Bounds;
/// use std::ops::Bound::{Included, Unbounded};
///
/// let from_k: Bounds<'_> = (Included(b"k"), Unbounded);
/// ```
pub type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Something that a data component is to change.
///
/// ```
/// use manx::txn::{Change, Value};
///
/// let batch = [
///     Change::Put { key: Value::from(&b"a"[..]), value: Value::from(&b"1"[..]) },
///     Change::Delete { key: Value::from(&b"b"[..]) },
/// ];
/// assert_ne!(batch[0], batch[1]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Value,
        /// Its value.
        value: Value,
    },
    /// The key has none.
    Delete {
        /// The key.
        key: Value,
    },
}

impl Change {
    /// The key that is changed.
    pub fn key(&self) -> &Value {
        match self {
            Change::Put { key, .. } | Change::Delete { key } => key,
        }
    }
}

/// Changes that are made together, and what they are part of.
///
/// ```
/// use manx::txn::{Batch, Change};
///
/// let changes = [Change::Delete { key: (*b"k").into() }];
/// let batch = Batch { timestamp: 7, ..Batch::new(&changes, true) };
/// assert_eq!((batch.changes.len(), batch.id, batch.sync), (1, 0, true));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The owner's, as [`Data::recover`] gave it.
    pub epoch: u64,
    /// The transaction's, which is not 0; or 0: of no transaction.
    pub id: u64,
    /// The timestamp of the commit; 0 if it has none.
    pub timestamp: u64,
    /// The oldest timestamp that could be read when it was committed.
    pub oldest_timestamp: u64,
    /// What changes. If a key is changed twice, the later change counts.
    pub changes: &'a [Change],
    /// It is to survive the loss of power.
    pub sync: bool,
}

impl<'a> Batch<'a> {
    /// Changes of no owner and no transaction: for a component that no store is using.
    pub fn new(changes: &'a [Change], sync: bool) -> Batch<'a> {
        Batch { changes, sync, ..Batch::default() }
    }
}

/// What the last owner of a data component has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Which owner this one is: higher than all before. Batches of a lower epoch are refused.
    pub epoch: u64,
    /// The highest id of a batch.
    pub last_id: u64,
    /// The highest timestamp of a commit.
    pub timestamp: u64,
    /// The oldest timestamp that can be read. A component that keeps no history can answer for
    /// nothing older than the newest commit: then it is not below `timestamp`.
    pub oldest_timestamp: u64,
}

impl Recovered {
    /// A batch was appended: what a later owner will find.
    ///
    /// ```
    /// use manx::txn::{Batch, Recovered};
    ///
    /// let mut known = Recovered { last_id: 9, ..Recovered::default() };
    /// known.note(&Batch { id: 8, timestamp: 20, ..Batch::default() });
    /// assert_eq!((known.last_id, known.timestamp, known.oldest_timestamp), (9, 20, 20));
    /// ```
    pub fn note(&mut self, batch: &Batch<'_>) {
        self.last_id = self.last_id.max(batch.id);
        self.timestamp = self.timestamp.max(batch.timestamp);
        // History is kept by the store, and a later one will have none.
        self.oldest_timestamp = self.oldest_timestamp.max(batch.oldest_timestamp).max(self.timestamp);
    }
}

/// What a data component can take.
///
/// ```
/// use manx::txn::Limits;
///
/// let limits = Limits { changes: 128, ..Limits::NONE };
/// assert_eq!(limits.value_bytes, usize::MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The length of a key.
    pub key_bytes: usize,
    /// The length of a value.
    pub value_bytes: usize,
    /// The keys and values of a batch together.
    pub batch_bytes: usize,
    /// The number of changes of a batch.
    pub changes: usize,
}

impl Limits {
    /// None at all.
    pub const NONE: Limits = Limits {
        key_bytes: usize::MAX,
        value_bytes: usize::MAX,
        batch_bytes: usize::MAX,
        changes: usize::MAX,
    };
}

/// An ordered store of committed data. Many threads call at once.
///
/// A batch gets its *place* in the order of all batches at once, and is seen from then on; whether
/// it is durable comes out later. So its transaction gives its keys free before the disk or the
/// network has answered, and batches of one key share the answer.
///
/// ```
/// use manx::txn::{Batch, Bounds, Change, Data, DataError, Entry, Outcome, Recovered, Value};
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
///
/// /// In memory, and gone with the process.
/// #[derive(Default)]
/// struct Map(Mutex<(BTreeMap<Value, Value>, Recovered, u64)>);
///
/// impl Data for Map {
///     fn recover(&self) -> Result<Recovered, DataError> {
///         let (_, known, _) = &mut *self.0.lock().unwrap();
///         known.epoch += 1;
///         Ok(*known)
///     }
///
///     fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
///         let (map, ..) = &*self.0.lock().unwrap();
///         Ok(keys.iter().map(|key| map.get(*key).cloned()).collect())
///     }
///
///     fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
///         let (map, ..) = &*self.0.lock().unwrap();
///         let entries = map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
///         Ok(if descending { entries.rev().take(limit).collect() } else { entries.take(limit).collect() })
///     }
///
///     fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
///         let (map, known, place) = &mut *self.0.lock().unwrap();
///         if batch.epoch < known.epoch {
///             return Err(DataError::new("another store has the map").with_outcome(Outcome::Fenced));
///         }
///         for change in batch.changes {
///             match change {
///                 Change::Put { key, value } => map.insert(key.clone(), value.clone()),
///                 Change::Delete { key } => map.remove(key),
///             };
///         }
///         known.note(&batch);
///         *place += 1;
///         Ok(*place)
///     }
///
///     fn wait(&self, _place: u64) -> Result<(), DataError> {
///         Ok(())
///     }
///
///     fn durable(&self) -> u64 {
///         u64::MAX
///     }
/// }
///
/// let map = Map::default();
/// map.apply(Batch::new(&[Change::Put { key: (*b"k").into(), value: (*b"v").into() }], false))?;
/// assert_eq!(map.get(b"k")?.as_deref(), Some(&b"v"[..]));
/// # Ok::<(), DataError>(())
/// ```
pub trait Data: Send + Sync {
    /// Takes the data over: from now on what an older owner appends is refused
    /// ([`Outcome::Fenced`]). Returns what the last owner has left.
    ///
    /// # Errors
    /// It cannot be taken over, or read.
    fn recover(&self) -> Result<Recovered, DataError>;

    /// What a key has.
    ///
    /// # Errors
    /// It cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    /// What some keys have, in their order, each as it is at some moment of the call.
    ///
    /// # Errors
    /// They cannot be read.
    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError>;

    /// The first `limit` entries of a range, from its end if `descending`, as they are now.
    ///
    /// # Errors
    /// They cannot be read.
    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError>;

    /// Gives a batch its place in the order of all batches: a later call gets a higher one. Makes
    /// all its changes or none, also after a crash, and no batch is left without those before it.
    /// [`Data::get`] and [`Data::scan`] see it when this returns. [`Data::wait`] tells when it is
    /// durable. While it is not known whether a batch was made ([`Outcome::Unknown`]) it may be
    /// appended again, with the same epoch and id, and is made once.
    ///
    /// # Errors
    /// [`DataError::outcome`] says whether nothing was changed, or that is not known.
    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError>;

    /// Returns once the batch of this place is durable, and each before it, as far as it or a later
    /// one that was appended has asked for that. Threads that wait at once share the disk's or the
    /// network's answer: *group commit* is the data component's business.
    ///
    /// # Errors
    /// [`DataError::outcome`] says whether it is there, or that is not known. Then the same error
    /// comes to all that wait for it or a later one.
    fn wait(&self, place: u64) -> Result<(), DataError>;

    /// Up to which place everything is known to be durable. Waits for nothing.
    fn durable(&self) -> u64;

    /// What it can take. By default there are no limits.
    fn limits(&self) -> Limits {
        Limits::NONE
    }

    /// Returns if no other owner had the data until now: so what was read before is what the data
    /// had then, also what was read in memory above it. A transaction that only reads asks at its
    /// end. By default no other owner can come without this one's knowledge.
    ///
    /// # Errors
    /// Another owner may have it, or has it.
    fn confirm(&self) -> Result<(), DataError> {
        Ok(())
    }

    /// Makes a recovery point of what was appended. By default there is nothing to do.
    ///
    /// # Errors
    /// It could not be made. What was appended is still there.
    fn checkpoint(&self) -> Result<(), DataError> {
        Ok(())
    }

    /// Appends a batch and waits for it.
    ///
    /// # Errors
    /// As [`Data::append`] and [`Data::wait`].
    fn apply(&self, batch: Batch<'_>) -> Result<(), DataError> {
        self.wait(self.append(batch)?)
    }
}

/// What became of the changes that a data component was to make, and has reported an error for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// None of them was made, or will be.
    NotApplied,
    /// All were made, or none: that is not known, and may come out when the store is opened again.
    Unknown,
    /// None of them was made, or will be, and none of any later ones: another store has taken the
    /// data over.
    Fenced,
}

/// What went wrong below, in words: what, where, and what to do.
///
/// ```
/// use manx::txn::{DataError, Error};
///
/// let error = Error::from(DataError::new("/data/log could not be written: make room there"));
/// assert!(error.to_string().ends_with("make room there"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DataError {
    text: String,
    outcome: Outcome,
}

impl DataError {
    /// An error with this message, after which no change was made ([`Outcome::NotApplied`]).
    pub fn new(message: impl Into<String>) -> DataError {
        DataError { text: message.into(), outcome: Outcome::NotApplied }
    }

    /// The same error with another outcome.
    ///
    /// ```
    /// use manx::txn::{DataError, Outcome};
    ///
    /// let error = DataError::new("no answer: look at the network").with_outcome(Outcome::Unknown);
    /// assert_eq!(error.outcome(), Outcome::Unknown);
    /// ```
    #[must_use]
    pub fn with_outcome(self, outcome: Outcome) -> DataError {
        DataError { outcome, ..self }
    }

    /// What became of the changes.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}
