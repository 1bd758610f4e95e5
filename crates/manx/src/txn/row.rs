//! A key and its versions, in one allocation with one count.
//!
//! The ordered table, the hash table, the transactions that write the key and the collector all
//! have it, each by one pointer of eight bytes. With the key in an `Arc<[u8]>` and the versions in
//! another one, each of them had 24 bytes and two counts: 56 bytes more for a key of 16, and one
//! more cache line for each read.
//!
//! To the tables a row is its key: they order, compare and hash the bytes. Whether two are the same
//! row, [`Row::is`] tells.

use super::versions::Versions;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use triomphe::ThinArc;

/// See [the module](self). It dereferences to the versions.
#[derive(Clone)]
pub(super) struct Row(ThinArc<Versions, u8>);

impl Row {
    /// A key without versions.
    pub(super) fn new(key: &[u8]) -> Row {
        Row(ThinArc::from_header_and_slice(Versions::default(), key))
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.0.slice
    }

    /// Whether both are the same row.
    #[inline]
    pub(super) fn is(&self, other: &Row) -> bool {
        self.address() == other.address()
    }

    /// No other row that is there at the same time has it.
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }
}

impl Deref for Row {
    type Target = Versions;

    #[inline]
    fn deref(&self) -> &Versions {
        &self.0.header.header
    }
}

impl Borrow<[u8]> for Row {
    #[inline]
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl Hash for Row {
    /// As its key does: a table is asked for a key.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Row({})", self.key().escape_ascii())
    }
}
