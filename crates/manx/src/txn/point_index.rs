//! Finds a key's versions, for a caller that knows the key.
//!
//! The ordered table finds a key by comparing it with some twenty others, and most of these are in
//! no cache. That takes microseconds, and a whole read takes little more. A hash table finds it
//! with one. So each key of a store in memory is in both. The ordered one decides which row is a
//! key's; this one only knows it sooner. The hash has a secret of the process, so a client that
//! chooses keys cannot choose their places; it takes a few nanoseconds, and std's takes some fifty.
//!
//! A reader never waits here. A thread that adds or removes a key may have to wait for others that
//! are just making the table larger (papaya, by parking).
//!
//! Invariants:
//! 1. A row is put here after it has come into the ordered table, and is closed before it leaves
//!    that. So a row that is here and not closed is the key's.
//! 2. A row that is closed does not stay: the thread that closed it removes it afterwards, and a
//!    thread that puts one here looks afterwards whether it was closed. Each writes, then reads
//!    what the other one writes, with a fence between (Dekker's pattern): one of the two sees the
//!    other.

use super::row::Row;
use crossbeam_epoch::Guard;
use foldhash::quality::RandomState;
use papaya::{HashMap, ResizeMode};
use std::sync::atomic::{Ordering, fence};

/// While the table grows, each new key copies this number of places. With 64, papaya's default, 512
/// of 32,768 keys took twice the time: more than one in a hundred requests of a new server.
const COPIED: usize = 8;

/// See [the module](self).
#[derive(Debug)]
pub(super) struct PointIndex(HashMap<Row, (), RandomState>);

impl Default for PointIndex {
    fn default() -> PointIndex {
        let builder = HashMap::builder().hasher(RandomState::default());
        PointIndex(builder.resize_mode(ResizeMode::Incremental(COPIED)).build())
    }
}

impl PointIndex {
    /// What `look` makes of the key's row, if it is here.
    #[inline]
    pub(super) fn find<T>(&self, key: &[u8], guard: &Guard, look: impl FnOnce(&Row) -> T) -> Option<T> {
        let pinned = self.0.pin();
        let (row, ()) = pinned.get_key_value(key)?;
        // Invariant 1.
        (!row.is_closed(guard)).then(|| look(row))
    }

    /// Puts a row here, which the ordered table has.
    pub(super) fn add(&self, row: &Row, guard: &Guard) {
        self.0.pin().insert(row.clone(), ());
        // Invariant 2.
        fence(Ordering::SeqCst);
        if row.is_closed(guard) {
            self.remove(row);
        }
    }

    /// Removes a row, which is closed.
    pub(super) fn remove(&self, row: &Row) {
        // Invariant 2.
        fence(Ordering::SeqCst);
        // Another row of the key may have come.
        let _ = self.0.pin().remove_if(row.key(), |here, ()| here.is(row));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_epoch as epoch;

    #[test]
    fn a_closed_row_is_not_found_and_takes_no_other_one_along() {
        let (points, guard) = (PointIndex::default(), &epoch::pin());
        let (old, new) = (Row::new(b"key"), Row::new(b"key"));
        let is_here = |row: &Row| points.find(b"key", guard, |here| here.is(row)).unwrap_or(false);
        points.add(&old, guard);
        assert!(is_here(&old));
        assert!(old.close(|_| true, guard));
        assert!(!is_here(&old), "it is not the key's any more");
        points.add(&new, guard);
        assert!(is_here(&new));
        points.remove(&old);
        assert!(is_here(&new));
        // Another thread was slow.
        points.add(&old, guard);
        assert!(!is_here(&old));
        assert_eq!(points.0.len(), 0, "who closed it has been here already");
        points.add(&new, guard);
        assert!(new.close(|_| true, guard));
        points.remove(&new);
        assert_eq!(points.0.len(), 0);
    }
}
