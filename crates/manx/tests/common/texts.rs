//! Stores of text: what tests of transactions put in and read.

use crate::map::Map;
use manx::txn::{Isolation, Options, Store, Transaction, Value};

/// A store in memory, and one over a data component: what is true of one is true of the other.
pub fn stores(options: fn() -> Options) -> [Store; 2] {
    [Store::in_memory(options()), Store::open(options(), Box::new(Map::default())).unwrap()]
}

pub fn put(store: &Store, key: &str, value: &str) {
    store
        .run(Isolation::Snapshot, |it| it.put(key.as_bytes(), value.as_bytes()))
        .expect("nobody is in the way");
}

pub fn text(value: Option<Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).expect("text"))
}

pub fn get(transaction: &mut Transaction<'_>, key: &str) -> Option<String> {
    text(transaction.get(key.as_bytes()).expect("readable"))
}

pub fn keys(transaction: &mut Transaction<'_>) -> Vec<String> {
    let all: Result<Vec<_>, _> = transaction.scan::<[u8], _>(..).collect();
    all.expect("readable").into_iter().map(|(key, _)| text(Some(key)).expect("there")).collect()
}
