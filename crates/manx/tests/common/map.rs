//! A data component that is always right: the model of one.

use manx::txn::{Bounds, Change, Data, DataError, Entry, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// In memory. A batch with a key `poison` fails.
#[derive(Default, Clone)]
pub struct Map(pub Arc<Mutex<BTreeMap<Value, Value>>>);

impl Data for Map {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        let map = self.0.lock().unwrap();
        let range = map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
        Ok(if descending { range.rev().take(limit).collect() } else { range.take(limit).collect() })
    }

    fn apply(&self, batch: &[Change], _: bool) -> Result<(), DataError> {
        let mut map = self.0.lock().unwrap();
        if batch.iter().any(|change| &**change.key() == b"poison") {
            return Err(DataError::new("the disk is full: make room"));
        }
        for change in batch.iter().cloned() {
            match change {
                Change::Put { key, value } => drop(map.insert(key, value)),
                Change::Delete { key } => drop(map.remove(&key)),
            }
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<(), DataError> {
        Ok(())
    }
}
