//! A data component that is right, and late: what was appended is durable when the test says so.

use super::map::Map;
use manx::txn::{Batch, Bounds, Data, DataError, Entry, Outcome, Recovered, Value};
use std::sync::{Arc, Condvar, Mutex};

/// A map whose disk answers when it is told to, or fails.
#[derive(Default, Clone)]
pub struct Lagging {
    pub map: Map,
    disk: Arc<(Mutex<Disk>, Condvar)>,
}

#[derive(Default)]
pub struct Disk {
    /// Up to this place all is durable.
    pub durable: u64,
    /// How many threads wait.
    pub waiting: usize,
    pub fails: bool,
}

impl Lagging {
    pub fn disk<T>(&self, change: impl FnOnce(&mut Disk) -> T) -> T {
        let done = change(&mut self.disk.0.lock().unwrap());
        self.disk.1.notify_all();
        done
    }
}

impl Data for Lagging {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.map.recover()
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        self.map.get_many(keys)
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        self.map.scan(bounds, descending, limit)
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        self.map.append(batch)
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        let mut disk = self.disk.0.lock().unwrap();
        disk.waiting += 1;
        while disk.durable < place && !disk.fails {
            disk = self.disk.1.wait(disk).unwrap();
        }
        disk.waiting -= 1;
        if disk.durable >= place {
            Ok(())
        } else {
            Err(DataError::new("no answer").with_outcome(Outcome::Unknown))
        }
    }

    fn durable(&self) -> u64 {
        self.disk.0.lock().unwrap().durable
    }
}
