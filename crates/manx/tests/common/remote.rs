//! Calls of a data component whose data other processes keep, in short.

use manx::txn::{Batch, Change, Data, DataError, Recovered, Remote, Value};
use std::collections::BTreeMap;
use std::ops::Bound;

pub fn apply(it: &Remote, owner: Recovered, id: u64, changes: &[Change]) -> Result<(), DataError> {
    it.apply(Batch { epoch: owner.epoch, id, ..Batch::new(changes, true) })
}

pub fn get(it: &Remote, key: &str) -> Result<Option<String>, DataError> {
    let found = it.get(key.as_bytes())?;
    Ok(found.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

pub fn some(text: &str) -> Result<Option<String>, DataError> {
    Ok(Some(text.into()))
}

/// All entries.
pub fn all(it: &Remote) -> BTreeMap<Value, Value> {
    it.scan((Bound::Unbounded, Bound::Unbounded), false, usize::MAX).expect("scanned").into_iter().collect()
}
