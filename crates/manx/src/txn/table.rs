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
//!    no snapshot needs any but the newest one, and that is in the data component.
//! 2. Versions leave the table closed. So a thread that writes into versions that were not closed
//!    writes into the key's own.

use super::data::{Bounds, Data, DataError, Entry, Value};
use super::point_index::PointIndex;
use super::retired::Retired;
use super::versions::{Before, Refused, Version, Versions, View};
use crossbeam_epoch::Guard;
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map;
use std::iter;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// See [the module](self).
pub(super) struct Table {
    pub(super) keys: SkipMap<Value, Arc<Versions>>,
    /// In memory: over a data component keys come and go, and few are here.
    points: Option<PointIndex>,
    pub(super) data: Option<Box<dyn Data>>,
}

/// A key that a transaction has written, and its versions: so no thread searches for it again.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) key: Value,
    pub(super) versions: Arc<Versions>,
    /// The memory of the version that was there before.
    pub(super) before_bytes: usize,
}

/// What a write did.
#[derive(Debug)]
pub(super) struct Wrote<'g> {
    /// What was written to, unless the transaction had written it before.
    pub(super) written: Option<Written>,
    pub(super) before: Before<'g>,
}

/// A key that has versions.
type Here<'t> = map::Entry<'t, Value, Arc<Versions>>;

/// Entries, and the last key that was looked at if there may be more.
pub(super) type Found = (Vec<Entry>, Option<Value>);

impl Table {
    pub(super) fn new(data: Option<Box<dyn Data>>) -> Table {
        Table { keys: SkipMap::new(), points: data.is_none().then(PointIndex::default), data }
    }

    /// What the key has in this view.
    #[inline]
    pub(super) fn get(&self, key: &[u8], view: View<'_>, guard: &Guard) -> Result<Option<Value>, DataError> {
        let see = |_: &Value, versions: &Arc<Versions>| versions.see(view, guard).cloned();
        let here = || match self.points.as_ref().and_then(|points| points.find(key, guard, see)) {
            Some(seen) => seen,
            None => self.keys.get(key).and_then(|entry| see(entry.key(), entry.value())),
        };
        if let Some(seen) = here() {
            return Ok(seen);
        }
        let Some(data) = &self.data else { return Ok(None) };
        let below = data.get(key)?;
        Ok(here().unwrap_or(below))
    }

    /// Finds a key of the bounds whose last version is not seen. Returns it, and the id of the
    /// transaction that wrote that version.
    pub(super) fn hidden(&self, bounds: Bounds<'_>, view: View<'_>, guard: &Guard) -> Option<(Value, u64)> {
        let mut within = self.within(bounds, false);
        within.find_map(|entry| Some((entry.key().clone(), entry.value().hidden(view, guard)?)))
    }

    /// The keys of the bounds that have versions. (`SkipMap::range` would keep each node that it
    /// has passed for ever: crossbeam's issue 1178, in crossbeam-skiplist 0.1.3.)
    fn within<'t>(&'t self, bounds: Bounds<'t>, descending: bool) -> impl Iterator<Item = Here<'t>> {
        let first =
            if descending { self.keys.upper_bound(bounds.1) } else { self.keys.lower_bound(bounds.0) };
        let next = move |at: &Here<'t>| if descending { at.prev() } else { at.next() };
        iter::successors(first, next)
            .take_while(move |at| RangeBounds::<[u8]>::contains(&bounds, &**at.key()))
    }

    /// Writes a version.
    pub(super) fn write<'g>(
        &self,
        key: &[u8],
        id: u64,
        value: Option<&Value>,
        view: View<'_>,
        guard: &'g Guard,
    ) -> Result<Wrote<'g>, WriteError> {
        let found = |key: &Value, versions: &Arc<Versions>| Written {
            key: key.clone(),
            versions: versions.clone(),
            before_bytes: 0,
        };
        loop {
            let it = self.points.as_ref().and_then(|points| points.find(key, guard, found));
            let mut it = it.unwrap_or_else(|| {
                let entry = match self.keys.get(key) {
                    Some(entry) => entry,
                    None => self.keys.get_or_insert_with(key.into(), Arc::default),
                };
                if let Some(points) = &self.points {
                    points.add(entry.key(), entry.value(), guard);
                }
                found(entry.key(), entry.value())
            });
            let versions = &*it.versions;
            if let Some(data) = &self.data
                && versions.is_empty(guard)
            {
                // It cannot have been changed since it was read: a transaction that changes it has
                // its versions here first, and in these.
                match data.get(key) {
                    Ok(below) => versions.begin_with(below, guard),
                    Err(error) => {
                        // No other thread would clean it up.
                        if versions.close(0, guard) {
                            self.remove(&it);
                        }
                        return Err(WriteError::Data(error));
                    }
                }
            }
            match versions.write(id, value.cloned(), view, guard) {
                Ok(before) => {
                    it.before_bytes = before.bytes;
                    return Ok(Wrote { written: before.own.is_none().then_some(it), before });
                }
                Err(Refused::Conflict(with)) => return Err(WriteError::Conflict(with)),
                // The thread that closed it is about to remove it.
                Err(Refused::Closed) => self.remove(&it),
            }
        }
    }

    /// Cuts off what no transaction needs of this key, and the key itself if it need not be here,
    /// for a transaction that has changed it and is over for all. Returns whether nothing is left
    /// to do: what was written since is the business of its writer. Not so if only timestamps keep
    /// something.
    pub(super) fn clean(
        &self,
        it: &Written,
        oldest: u64,
        oldest_timestamp: u64,
        retired: &mut Retired<Version>,
        guard: &Guard,
    ) -> bool {
        let versions = &it.versions;
        let Some((left, is_deleted)) = versions.cut(oldest, oldest_timestamp, retired, guard) else {
            return false;
        };
        let may_leave = left <= 1 && (self.data.is_some() || is_deleted);
        if may_leave && versions.close(oldest, guard) {
            self.remove(it);
        }
        true
    }

    /// Removes a key whose versions are closed.
    fn remove(&self, Written { key, versions, .. }: &Written) {
        // If others have replaced them, these are not the key's own any more.
        if let Some(entry) = self.keys.get(&**key)
            && Arc::ptr_eq(entry.value(), versions)
        {
            entry.remove();
        }
        if let Some(points) = &self.points {
            points.remove(key, versions);
        }
    }

    /// Up to `limit` entries that are seen, from the beginning of the bounds or from their end, and
    /// the last key that was looked at if there may be more: of what is below and of what is here,
    /// which decides.
    pub(super) fn scan(
        &self,
        bounds: Bounds<'_>,
        descending: bool,
        limit: usize,
        view: View<'_>,
        guard: &Guard,
    ) -> Result<Found, DataError> {
        let below = self.data.as_ref().map_or(Ok(Vec::new()), |data| data.scan(bounds, descending, limit))?;
        // As far as is known what is below.
        let last = if below.len() == limit { below.last().map(|(key, _)| key.clone()) } else { None };
        let end = last.clone();
        let bounds: Bounds<'_> = match &end {
            None => bounds,
            Some(end) if descending => (Bound::Included(end), bounds.1),
            Some(end) => (bounds.0, Bound::Included(end)),
        };
        let in_order = |a: &Value, b: &Value| if descending { a > b } else { a < b };
        let mut found = Vec::with_capacity(below.len());
        let mut below = below.into_iter().peekable();
        for entry in self.within(bounds, descending) {
            let Some(seen) = entry.value().see(view, guard) else { continue };
            let key = entry.key();
            while let Some(before) = below.next_if(|(other, _)| in_order(other, key)) {
                found.push(before);
            }
            below.next_if(|(other, _)| other == key);
            if let Some(value) = seen {
                found.push((key.clone(), value.clone()));
            }
            if found.len() >= limit {
                // There may be more here than there is below.
                return Ok((found, Some(key.clone())));
            }
        }
        found.extend(below);
        Ok((found, last))
    }
}

/// Why a version was not written.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The writer does not see what this one wrote.
    Conflict(u64),
    /// What the key has is not known.
    Data(DataError),
}
