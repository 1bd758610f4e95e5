//! What a store of transactions stands on: an ordered store of committed data (a *data component*,
//! DC, in the words of Lomet and Mokbel, "Locking Key Ranges with Unbundled Transaction Services",
//! 2009).
//!
//! It knows no transactions: it gets what was committed, in batches, and gives back what it has.
//! Everything that is not yet committed, and every version that some snapshot still needs, is above
//! it.

use std::fmt;
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
///
/// ```
/// use manx::txn::{Entry, Value};
///
/// let (key, value): Entry = (Value::from(&b"a"[..]), Value::from(&b"1"[..]));
/// assert!(key > value);
/// ```
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
    ///
    /// ```
    /// use manx::txn::Change;
    ///
    /// assert_eq!(&**Change::Delete { key: (*b"k").into() }.key(), b"k");
    /// ```
    pub fn key(&self) -> &Value {
        match self {
            Change::Put { key, .. } | Change::Delete { key } => key,
        }
    }
}

/// An ordered store of committed data. Many threads call at once.
///
/// ```
/// use manx::txn::{Bounds, Change, Data, DataError, Entry, Value};
/// use std::collections::BTreeMap;
/// use std::sync::RwLock;
///
/// /// In memory, and gone with the process.
/// #[derive(Default)]
/// struct Map(RwLock<BTreeMap<Value, Value>>);
///
/// impl Data for Map {
///     fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
///         Ok(self.0.read().unwrap().get(key).cloned())
///     }
///
///     fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
///         let map = self.0.read().unwrap();
///         let entries = map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
///         Ok(if descending { entries.rev().take(limit).collect() } else { entries.take(limit).collect() })
///     }
///
///     fn apply(&self, batch: &[Change], _sync: bool) -> Result<(), DataError> {
///         let mut map = self.0.write().unwrap();
///         for change in batch {
///             match change {
///                 Change::Put { key, value } => map.insert(key.clone(), value.clone()),
///                 Change::Delete { key } => map.remove(key),
///             };
///         }
///         Ok(())
///     }
///
///     fn checkpoint(&self) -> Result<(), DataError> {
///         Ok(())
///     }
/// }
///
/// let map = Map::default();
/// map.apply(&[Change::Put { key: (*b"k").into(), value: (*b"v").into() }], false)?;
/// assert_eq!(map.get(b"k")?.as_deref(), Some(&b"v"[..]));
/// # Ok::<(), DataError>(())
/// ```
pub trait Data: Send + Sync {
    /// What a key has.
    ///
    /// # Errors
    /// It cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError>;

    /// The first `limit` entries of a range, from its end if `descending`, as they are now.
    ///
    /// # Errors
    /// They cannot be read.
    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError>;

    /// Makes all changes or none, also after a crash. What `sync` asked for survives the loss of
    /// power once this has returned. A thread that calls while others do waits with them for one
    /// disk write: *group commit* is the data component's business.
    ///
    /// # Errors
    /// [`DataError::outcome`] says whether nothing was changed, or that is not known.
    fn apply(&self, batch: &[Change], sync: bool) -> Result<(), DataError>;

    /// Makes a recovery point of what was applied.
    ///
    /// # Errors
    /// It could not be made. What was applied is still there.
    fn checkpoint(&self) -> Result<(), DataError>;
}

/// What became of the changes that a data component was to make, and has reported an error for.
///
/// ```
/// use manx::txn::{DataError, Outcome};
///
/// assert_eq!(DataError::new("the disk is full: make room").outcome(), Outcome::NotApplied);
/// ```
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
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for DataError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

impl std::error::Error for DataError {}
