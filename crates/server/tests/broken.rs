//! What is below the server fails: a disk that takes no more, or a panic. Clients are told or
//! disconnected, and others are served.

#[path = "../../manx/tests/common/lagging.rs"]
mod lagging;
#[path = "../../manx/tests/common/map.rs"]
mod map;
mod support;

use lagging::Lagging;
use manx::txn::{Batch, Bounds, Data, DataError, Entry, Recovered, Store, Value};
use map::Map;
use server::resp::Reply::{self, Simple};
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

fn on(data: impl Data + 'static, model: Model) -> Server {
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

/// A server with a durable key `old`, and the place of the next commit.
fn lagging(model: Model) -> (Server, Lagging, u64) {
    let data = Lagging::default();
    data.disk(|disk| disk.durable = u64::MAX);
    let server = on(data.clone(), model);
    Client::to(&server).expect_ok("SET old 1");
    let last = data.map.appended();
    data.disk(|disk| disk.durable = last);
    (server, data, last + 1)
}

#[test]
fn an_answer_waits_until_all_that_it_tells_of_is_durable() {
    for model in MODELS {
        let (server, data, first) = lagging(model);
        std::thread::scope(|scope| {
            let mut asked = 0;
            let mut ask = |line: &'static str, reply: Reply, last: u64| {
                let (data, mut it) = (&data, Client::to(&server));
                scope.spawn(move || {
                    it.expect(line, reply);
                    assert!(data.durable() >= last, "{line} was answered too early");
                });
                asked += 1;
                until("it waits for the disk", || data.disk(|disk| disk.waiting == asked));
            };
            ask("SET k 1", ok(), first);
            ask("GET k", bulk("1"), first);
            ask("INCR k", int(2), first + 1);
            ask("EXISTS k", int(1), first + 1);
            ask("DBSIZE", int(2), first + 1);
            ask("FLUSHALL", ok(), first + 2);
            // They read nothing that it wrote.
            ask("GET old", Reply::Null, first + 2);
            ask("DBSIZE", int(0), first + 2);
            let other = &mut Client::to(&server);
            other.expect("PING", Simple("PONG".into()));
            data.disk(|disk| disk.durable = first);
            data.disk(|disk| disk.durable = first + 1);
            data.disk(|disk| disk.durable = u64::MAX);
        });
    }
}

#[test]
fn a_client_gets_an_error_and_is_disconnected_if_the_disk_fails_for_which_it_waits() {
    for model in MODELS {
        let (server, data, _) = lagging(model);
        data.disk(|disk| disk.fails = true);
        let mut it = Client::to(&server);
        it.send(b"PING\r\nSET k 1\r\nSET k 2\r\nGET old\r\n");
        assert_eq!(it.next(), Some(Simple("PONG".into())));
        let error = it.next();
        assert!(matches!(&error, Some(Reply::Error(why)) if why.contains("no answer")), "{error:?}");
        assert_eq!(it.next(), None);
        let mut it = Client::to(&server);
        it.expect("GET old", bulk("1"));
        assert_eq!(writing(&mut it), "err");
        it.expect_error("GET k", "ERR the store failed: no answer");
    }
}
