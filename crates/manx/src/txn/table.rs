//! All keys that have versions, in order.
//!
//! Without a data component this is all there is. With one it holds the keys that are being
//! written, or were a moment ago, with all versions that some snapshot may need. The last of these
//! versions is what the data component had before. A reader that finds a key here goes by its
//! versions, and by the data component otherwise. So a reader of the data component looks here once
//! more, since what it read may be newer than its snapshot:
//!
//! ```text
//! writer: versions here, with the old one ──► commit ──► data component
//! reader:                    here: none ──► data component ──► here again
//! ```
//!
//! Invariants:
//! 1. A key that a transaction has changed has its versions here from before the first change until
//!    no snapshot needs any but the newest one, and that is settled in the data component
//!    (`component.rs`).
//! 2. Versions leave the table closed. So a thread that writes into versions that were not closed
//!    writes into the key's own.

use super::component::Component;
use super::data::{Bounds, DataError, Value};
use super::point_index::PointIndex;
use super::reads::Reads;
use super::retired::Retired;
use super::row::Row;
use super::versions::{Before, Needed, Needs, Refused, Version, View};
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::{SkipList, base};
use std::iter;
use std::ops::{Bound, ControlFlow, RangeBounds};

/// See [the module](self).
pub(super) struct Table {
    pub(super) keys: SkipList<Row, ()>,
    /// In memory: over a data component keys come and go, and few are here.
    points: Option<PointIndex>,
    pub(super) data: Option<Component>,
}

/// A key that a transaction has written: so no thread searches for it again.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) row: Row,
    /// The memory of the version that was there before.
    pub(super) before_bytes: usize,
}

/// What a write did.
#[derive(Debug)]
pub(super) struct Wrote<'g> {
    pub(super) written: Written,
    pub(super) before: Before<'g>,
}

/// A key that has versions.
type Here<'g> = base::Entry<'g, 'g, Row, ()>;

/// A part of the keys that is to be visited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'b> {
    pub(super) bounds: Bounds<'b>,
    pub(super) descending: bool,
    /// About how many keys are looked at.
    pub(super) limit: usize,
    /// It is an error if the last version of a key is not seen.
    pub(super) is_strict: bool,
}

/// How a visit ended.
#[derive(Debug)]
pub(super) enum Visited {
    /// There are no more keys.
    All,
    /// The visitor has seen enough.
    Enough,
    /// There may be more behind this key.
    Until(Vec<u8>),
}

impl Table {
    pub(super) fn new(data: Option<Component>) -> Table {
        let keys = SkipList::new(epoch::default_collector().clone());
        Table { keys, points: data.is_none().then(PointIndex::default), data }
    }

    /// What the key has in this view.
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        view: View<'_>,
        reads: &Reads,
        guard: &Guard,
    ) -> Result<Option<Value>, DataError> {
        let see = |row: &Row| {
            let version = row.see(view, guard)?;
            self.note(version, reads);
            Some(version.value.clone())
        };
        let here = || match self.points.as_ref().and_then(|points| points.find(key, guard, see)) {
            Some(seen) => seen,
            None => self.keys.get(key, guard).and_then(|entry| see(entry.key())),
        };
        if let Some(seen) = here() {
            return Ok(seen);
        }
        let Some(data) = &self.data else { return Ok(None) };
        let below = data.get(key)?;
        Ok(here().unwrap_or_else(|| {
            reads.remember(key, &below);
            below
        }))
    }

    /// A transaction has seen this version.
    #[inline]
    fn note(&self, version: &Version, reads: &Reads) {
        if let Some(data) = &self.data {
            reads.depend_on(data.place_of(version.id));
        }
    }

    /// Finds a key of the bounds whose last version is not seen. Returns it, and the id of the
    /// transaction that wrote that version.
    pub(super) fn hidden(&self, bounds: Bounds<'_>, view: View<'_>, guard: &Guard) -> Option<(Vec<u8>, u64)> {
        let mut within = self.within(bounds, false, guard);
        within.find_map(|entry| Some((entry.key().key().to_vec(), entry.key().hidden(view, guard)?)))
    }

    /// The keys of the bounds that have versions.
    fn within<'g>(
        &'g self,
        (from, to): Bounds<'g>,
        descending: bool,
        guard: &'g Guard,
    ) -> impl Iterator<Item = Here<'g>> {
        let first =
            if descending { self.keys.upper_bound(to, guard) } else { self.keys.lower_bound(from, guard) };
        let next = move |at: &Here<'g>| if descending { at.prev() } else { at.next() };
        // Beyond the other end all keys are. A scan without that end reads no keys here.
        let rest = if descending { (from, Bound::Unbounded) } else { (Bound::Unbounded, to) };
        let ends = rest != (Bound::Unbounded, Bound::Unbounded);
        iter::successors(first, next)
            .take_while(move |at| !ends || RangeBounds::<[u8]>::contains(&rest, at.key().key()))
    }

    /// Writes a version.
    pub(super) fn write<'g>(
        &self,
        key: &[u8],
        id: u64,
        value: Option<&Value>,
        view: View<'_>,
        reads: &Reads,
        guard: &'g Guard,
    ) -> Result<Wrote<'g>, WriteError> {
        if let Some(data) = &self.data {
            data.check(key, value).map_err(WriteError::Data)?;
        }
        loop {
            // A key that the hash table does not have is hardly ever in the ordered one.
            let row = match &self.points {
                Some(points) => points.find(key, guard, Row::clone),
                None => self.keys.get(key, guard).map(|entry| entry.key().clone()),
            };
            let row = row.unwrap_or_else(|| {
                let entry = self.keys.get_or_insert(Row::new(key), (), guard);
                let row = entry.key().clone();
                entry.release(guard);
                if let Some(points) = &self.points {
                    points.add(&row, guard);
                }
                row
            });
            if let Some(data) = &self.data
                && row.is_empty(guard)
            {
                // It cannot have been changed since it was read: a transaction that changes it has
                // its versions here first, and in these.
                match reads.recall(key).map_or_else(|| data.get(key), Ok) {
                    Ok(below) => row.begin_with(below, guard),
                    Err(error) => {
                        // No other thread would clean it up.
                        if row.close(|_| false, guard) {
                            self.remove(&row, guard);
                        }
                        return Err(WriteError::Data(error));
                    }
                }
            }
            match row.write(id, value.cloned(), view, guard) {
                Ok(before) => {
                    let written = Written { row, before_bytes: before.bytes };
                    return Ok(Wrote { written, before });
                }
                Err(Refused::Conflict(with)) => return Err(WriteError::Conflict(with)),
                // The thread that closed it is about to remove it.
                Err(Refused::Closed) => self.remove(&row, guard),
            }
        }
    }

    /// Cuts off what no transaction needs of this key, and the key itself if it need not be here,
    /// for a transaction that has changed it and is over for all. Returns whether nothing is left
    /// to do: what was written since is the business of its writer. Not so if only timestamps keep
    /// something.
    pub(super) fn clean(
        &self,
        row: &Row,
        oldest: u64,
        oldest_timestamp: u64,
        retired: &mut Retired<Version>,
        guard: &Guard,
    ) -> bool {
        let Some((left, is_deleted)) = row.cut(oldest, oldest_timestamp, retired, guard) else {
            return false;
        };
        let may_leave = left <= 1 && (self.data.is_some() || is_deleted);
        // A transaction that wrote since has a later id, or is at work.
        if may_leave && row.close(|id| id < oldest, guard) {
            self.remove(row, guard);
        }
        true
    }

    /// Unlinks what no transaction needs of this key, and removes the key itself if it need not be
    /// here, as [`Table::clean`] does, also if an old snapshot is in use. Calls `keep` with what
    /// keeps something.
    pub(super) fn prune(
        &self,
        row: &Row,
        needs: Needs<'_>,
        retired: &mut Retired<Version>,
        guard: &Guard,
        mut keep: impl FnMut(Needed, usize),
    ) {
        // What was written there was taken back.
        if row.is_empty(guard) && row.close(|_| false, guard) {
            return self.remove(row, guard);
        }
        let only = row.prune(needs, retired, guard, &mut keep);
        let Some(only) = only.filter(|only| self.data.is_some() || only.value.is_none()) else { return };
        // Otherwise its writer is going to see to it.
        if !needs.readers.all_see_later(only.id) || only.id >= needs.settled {
            return;
        }
        if only.timestamp() > needs.oldest_timestamp {
            keep(Needed::ByTimestamp, 0);
        } else if let Some(end) = needs.readers.miss(only.id) {
            keep(Needed::Until(end), 0);
        } else if row.close(|id| id == only.id, guard) {
            self.remove(row, guard);
        }
    }

    /// Removes a key whose row is closed.
    fn remove(&self, row: &Row, guard: &Guard) {
        // If another one has replaced it, it is not the key's own any more.
        if let Some(entry) = self.keys.get(row.key(), guard)
            && entry.key().is(row)
        {
            entry.remove();
        }
        if let Some(points) = &self.points {
            points.remove(row);
        }
    }

    /// Shows the entries of a part that are seen, in order, until the visitor has seen enough: of
    /// what is below and of what is here, which decides.
    pub(super) fn visit(
        &self,
        part: Part<'_>,
        view: View<'_>,
        reads: &Reads,
        guard: &Guard,
        mut see: impl FnMut(&[u8], &Value) -> ControlFlow<()>,
    ) -> Result<Visited, ReadError> {
        let Part { bounds, descending, limit, is_strict } = part;
        let below = match &self.data {
            Some(data) => data.scan(bounds, descending, limit).map_err(ReadError::Data)?,
            None => Vec::new(),
        };
        // As far as is known what is below.
        let last = if below.len() == limit { below.last().map(|(key, _)| key.clone()) } else { None };
        let bounds: Bounds<'_> = match &last {
            None => bounds,
            Some(end) if descending => (Bound::Included(end), bounds.1),
            Some(end) => (bounds.0, Bound::Included(end)),
        };
        let in_order = |a: &[u8], b: &[u8]| if descending { a > b } else { a < b };
        let mut below = below.into_iter().peekable();
        for (looked, entry) in self.within(bounds, descending, guard).enumerate() {
            let row = entry.key();
            let key = row.key();
            if is_strict && let Some(with) = row.hidden(view, guard) {
                return Err(ReadError::Hidden { key: key.to_vec(), with });
            }
            while let Some((before, value)) = below.next_if(|(other, _)| in_order(other, key)) {
                if see(&before, &value).is_break() {
                    return Ok(Visited::Enough);
                }
            }
            let same = below.next_if(|(other, _)| **other == *key);
            let seen = match row.see(view, guard) {
                Some(version) => {
                    self.note(version, reads);
                    version.value.as_ref()
                }
                None => same.as_ref().map(|(_, value)| value),
            };
            if seen.is_some_and(|value| see(key, value).is_break()) {
                return Ok(Visited::Enough);
            }
            if looked + 1 >= limit {
                // There may be more here than there is below.
                return Ok(Visited::Until(key.to_vec()));
            }
        }
        for (key, value) in below {
            if see(&key, &value).is_break() {
                return Ok(Visited::Enough);
            }
        }
        Ok(last.map_or(Visited::All, |last| Visited::Until(last.to_vec())))
    }
}

/// Why a part was not visited.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The last version of the key is not seen: this transaction wrote it.
    Hidden { key: Vec<u8>, with: u64 },
    /// What is below is not known.
    Data(DataError),
}

/// Why a version was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The writer does not see what this one wrote.
    Conflict(u64),
    /// What the key has is not known.
    Data(DataError),
}
