//! The data component of an open store: what it has taken over, what it may be given, and what it
//! was given and has not answered yet.
//!
//! Invariant: what a transaction wrote that is not settled is in the table (`table.rs`). So what is
//! read below the table is settled, and what is read in the table has an id by which its place is
//! found.

use super::coordinator::Unsettled;
use super::data::{Batch, Bounds, Change, Data, DataError, Entry, Limits, Recovered, Value};

/// See [the module](self).
pub(super) struct Component {
    data: Box<dyn Data>,
    epoch: u64,
    limits: Limits,
    sync: bool,
    unsettled: Unsettled,
}

impl Component {
    /// Takes the data over.
    pub(super) fn open(data: Box<dyn Data>, sync: bool) -> Result<(Component, Recovered), DataError> {
        let recovered = data.recover()?;
        let limits = data.limits();
        let (epoch, unsettled) = (recovered.epoch, Unsettled::default());
        Ok((Component { data, epoch, limits, sync, unsettled }, recovered))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        self.data.get(key)
    }

    pub(super) fn scan(
        &self,
        bounds: Bounds<'_>,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, DataError> {
        self.data.scan(bounds, descending, limit)
    }

    pub(super) fn checkpoint(&self) -> Result<(), DataError> {
        self.data.checkpoint()
    }

    /// Whether what was read was the data's.
    pub(super) fn confirm(&self) -> Result<(), DataError> {
        self.data.confirm()
    }

    /// Says whether it could take this key and value.
    pub(super) fn check(&self, key: &[u8], value: Option<&Value>) -> Result<(), DataError> {
        let Limits { key_bytes, value_bytes, .. } = self.limits;
        within("a key", "bytes", key.len(), key_bytes)?;
        within("a value", "bytes", value.map_or(0, |value| value.len()), value_bytes)
    }

    /// Gives what a transaction changes its place in the order of all, which is returned. The
    /// transaction may end then.
    pub(super) fn append(
        &self,
        id: u64,
        (timestamp, oldest_timestamp): (u64, u64),
        changes: &[Change],
    ) -> Result<u64, DataError> {
        within("a transaction", "changes", changes.len(), self.limits.changes)?;
        if self.limits.batch_bytes < usize::MAX {
            let bytes = |change: &Change| match change {
                Change::Put { key, value } => key.len() + value.len(),
                Change::Delete { key } => key.len(),
            };
            within("a transaction", "bytes", changes.iter().map(bytes).sum(), self.limits.batch_bytes)?;
        }
        let (epoch, sync) = (self.epoch, self.sync);
        let place = self.data.append(Batch { epoch, id, timestamp, oldest_timestamp, changes, sync })?;
        let durable = self.data.durable();
        if place > durable {
            self.unsettled.add(id, place);
        }
        // No thread may have waited for what came before.
        self.unsettled.settle(durable.min(place));
        Ok(place)
    }

    /// Waits until what has this place is as durable as it is to be.
    pub(super) fn wait(&self, place: u64) -> Result<(), DataError> {
        self.data.wait(place)?;
        self.unsettled.settle(place);
        Ok(())
    }

    /// The place that a transaction has to wait for that has seen what this one wrote; 0 if it need
    /// not wait.
    #[inline]
    pub(super) fn place_of(&self, id: u64) -> u64 {
        let place = self.unsettled.place_of(id);
        if place > 0 && place <= self.data.durable() { 0 } else { place }
    }

    /// What transactions below this id wrote is settled, if they are over.
    pub(super) fn settled_below(&self) -> u64 {
        self.unsettled.oldest()
    }
}

fn within(what: &str, unit: &str, has: usize, limit: usize) -> Result<(), DataError> {
    if has <= limit {
        return Ok(());
    }
    Err(DataError::new(format!(
        "{what} has {has} {unit}, and the data component takes {limit} at most: divide it"
    )))
}
