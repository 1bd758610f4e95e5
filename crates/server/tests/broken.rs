//! What is below the server fails: a disk that takes no more, or a panic. Clients are told or
//! disconnected, and others are served.

#[path = "../../manx/tests/common/map.rs"]
mod map;
mod support;

use manx::txn::{Batch, Bounds, Data, DataError, Entry, Recovered, Store, Value};
use map::Map;
use server::resp::Reply::Simple;
use server::{Model, Options, Server};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::*;
use testing::until;

/// Data in memory, on a disk that may be full.
#[derive(Default)]
struct Faulty {
    map: Map,
    is_full: Arc<AtomicBool>,
}

impl Data for Faulty {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.map.recover()
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        assert!(!keys.iter().any(|key| key.ends_with(b"panic")), "this key is read");
        self.map.get_many(keys)
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        self.map.scan(bounds, descending, limit)
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        if self.is_full.load(Relaxed) {
            return Err(DataError::new("there is no room"));
        }
        self.map.append(batch)
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        self.map.wait(place)
    }

    fn durable(&self) -> u64 {
        self.map.durable()
    }
}

fn on(data: Faulty, model: Model) -> Server {
    let store = Store::open(manx::txn::Options::default(), Box::new(data)).unwrap();
    Server::start(Options { durable: true, ..options(model) }, store).unwrap()
}

fn writing(it: &mut Client) -> String {
    let info = it.info("persistence");
    let (_, behind) = info.split_once("aof_last_write_status:").unwrap();
    behind.split_once("\r\n").unwrap().0.to_owned()
}

#[test]
fn a_write_that_fails_is_told_of() {
    for model in MODELS {
        let data = Faulty::default();
        let is_full = Arc::clone(&data.is_full);
        let server = on(data, model);
        let it = &mut Client::to(&server);
        assert_eq!(writing(it), "ok");
        it.expect_ok("SET k 1");
        is_full.store(true, Relaxed);
        it.expect_error("SET k 2", "ERR the store failed: there is no room");
        assert_eq!(writing(it), "err");
        // Reading is no writing.
        it.expect("GET k", bulk("1"));
        assert_eq!(writing(it), "err");
        is_full.store(false, Relaxed);
        it.expect_ok("SET k 3");
        assert_eq!(writing(it), "ok");
    }
}

/// More often than there are threads that could end by it.
#[test]
fn a_panic_ends_its_connection_and_no_other() {
    for model in MODELS {
        let server = on(Faulty::default(), model);
        let other = &mut Client::to(&server);
        for _ in 0..20 {
            let it = &mut Client::to(&server);
            it.expect("PING", Simple("PONG".into()));
            it.send(b"GET panic\r\nPING\r\n");
            assert_eq!(it.next(), None);
            other.expect("PING", Simple("PONG".into()));
        }
        // Their places are free as soon as they have ended.
        until("their places", || other.info("clients").contains("connected_clients:1\r\n"));
        other.expect_ok("SET k v");
        other.expect("GET k", bulk("v"));
    }
}
