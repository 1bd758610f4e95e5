//! A data component that is always right: the model of one.

use manx::txn::{Batch, Bounds, Change, Data, DataError, Entry, Outcome, Recovered, Value};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// In memory. A batch with a key `poison` fails, and a read of the key `panic` panics.
#[derive(Default, Clone)]
pub struct Map(pub Arc<Mutex<BTreeMap<Value, Value>>>, Arc<Mutex<Known>>);

/// What the map knows of its owner: what a later one will find, the last place, and the last
/// transactions, which may be appended again.
#[derive(Default)]
struct Known {
    recovered: Recovered,
    place: u64,
    appended: HashMap<(u64, u64), u64>,
}

impl Map {
    /// The last place.
    #[allow(dead_code, reason = "some tests use it")]
    pub fn appended(&self) -> u64 {
        self.1.lock().unwrap().place
    }
}

impl Data for Map {
    fn recover(&self) -> Result<Recovered, DataError> {
        let mut known = self.1.lock().unwrap();
        known.recovered.epoch += 1;
        Ok(known.recovered)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        assert!(keys.iter().all(|key| *key != b"panic"), "this key is read");
        let map = self.0.lock().unwrap();
        Ok(keys.iter().map(|key| map.get(*key).cloned()).collect())
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        let map = self.0.lock().unwrap();
        let range = map.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.clone()));
        Ok(if descending { range.rev().take(limit).collect() } else { range.take(limit).collect() })
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        let mut known = self.1.lock().unwrap();
        if batch.epoch < known.recovered.epoch {
            return Err(DataError::new("another store has the map").with_outcome(Outcome::Fenced));
        }
        if let Some(place) = known.appended.get(&(batch.epoch, batch.id)) {
            return Ok(*place);
        }
        let mut map = self.0.lock().unwrap();
        if batch.changes.iter().any(|change| &**change.key() == b"poison") {
            return Err(DataError::new("the disk is full: make room"));
        }
        for change in batch.changes.iter().cloned() {
            match change {
                Change::Put { key, value } => drop(map.insert(key, value)),
                Change::Delete { key } => drop(map.remove(&key)),
            }
        }
        known.recovered.note(&batch);
        known.place += 1;
        let place = known.place;
        if batch.id != 0 {
            known.appended.insert((batch.epoch, batch.id), place);
        }
        Ok(place)
    }

    fn wait(&self, _: u64) -> Result<(), DataError> {
        Ok(())
    }

    fn durable(&self) -> u64 {
        u64::MAX
    }
}
