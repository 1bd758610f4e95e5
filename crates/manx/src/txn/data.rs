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
    /// Nothing was changed, or it is not known whether it was: the message says which.
    fn apply(&self, batch: &[Change], sync: bool) -> Result<(), DataError>;

    /// Makes a recovery point of what was applied.
    ///
    /// # Errors
    /// It could not be made. What was applied is still there.
    fn checkpoint(&self) -> Result<(), DataError>;
}

/// What went wrong below: what, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError(pub String);

impl fmt::Display for DataError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for DataError {}
