//! The data component of an open store: what it has taken over, and what it may be given.

use super::data::{Batch, Bounds, Change, Data, DataError, Entry, Limits, Recovered, Value};

/// See [the module](self).
pub(super) struct Component {
    data: Box<dyn Data>,
    epoch: u64,
    limits: Limits,
    sync: bool,
}

impl Component {
    /// Takes the data over.
    pub(super) fn open(data: Box<dyn Data>, sync: bool) -> Result<(Component, Recovered), DataError> {
        let recovered = data.recover()?;
        let limits = data.limits();
        Ok((Component { data, epoch: recovered.epoch, limits, sync }, recovered))
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

    /// Says whether it could take this key and value.
    pub(super) fn check(&self, key: &[u8], value: Option<&Value>) -> Result<(), DataError> {
        let Limits { key_bytes, value_bytes, .. } = self.limits;
        within("a key", "bytes", key.len(), key_bytes)?;
        within("a value", "bytes", value.map_or(0, |value| value.len()), value_bytes)
    }

    /// Gives what a transaction changes its place in the order of all, which is returned.
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
        self.data.append(Batch { epoch, id, timestamp, oldest_timestamp, changes, sync })
    }

    /// Waits until what has this place is durable, if it is to be.
    pub(super) fn wait(&self, place: u64) -> Result<(), DataError> {
        self.data.wait(place)
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
