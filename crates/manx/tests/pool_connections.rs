//! Connections as a pool's load, as a server has it: whichever worker is free serves a request of a
//! connection, the connection's requests one after the other, and each one is a transaction, which
//! may have to wait.

use manx::pool::{Control, FriendlyPool, Shutdown, block_in_place};
use manx::txn::{Error, Isolation, Options, Store, Transaction};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use testing::{LONG, until};

const WORKERS: usize = 2;
const CONNECTIONS: usize = 200;

struct Service {
    pool: FriendlyPool,
    store: Store,
}

/// The service's end of a connection.
struct Connection {
    service: Arc<Service>,
    /// Keys to count. A job serves the first one.
    requests: Mutex<VecDeque<String>>,
    answer: Sender<u64>,
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

fn count(it: &mut Transaction<'_>, key: &str) -> Result<u64, Error> {
    let before = it.get_for_update(key.as_bytes())?;
    let count = before.map_or(1, |bytes| number(&bytes) + 1);
    it.put(key.as_bytes(), &count.to_le_bytes())?;
    Ok(count)
}

impl Connection {
    fn open(service: &Arc<Service>) -> (Arc<Connection>, Receiver<u64>) {
        let (answer, answers) = channel();
        let service = Arc::clone(service);
        (Arc::new(Connection { service, requests: Mutex::default(), answer }), answers)
    }

    fn request(self: &Arc<Self>, key: &str) {
        let mut requests = self.requests.lock().unwrap();
        requests.push_back(key.into());
        if requests.len() == 1 {
            self.queue();
        }
    }

    fn queue(self: &Arc<Self>) {
        let it = Arc::clone(self);
        self.service.pool.execute(move || it.serve()).expect("open");
    }

    /// Serves one request, and leaves the worker to other connections.
    fn serve(self: &Arc<Self>) {
        let key = self.requests.lock().unwrap()[0].clone();
        let work = |it: &mut Transaction<'_>| count(it, &key);
        let counted = block_in_place(|| self.service.store.run(Isolation::Serializable, work));
        let _ = self.answer.send(counted.expect("nothing fails"));
        let mut requests = self.requests.lock().unwrap();
        requests.pop_front();
        if !requests.is_empty() {
            self.queue();
        }
    }
}

fn service() -> Arc<Service> {
    let pool = FriendlyPool::builder().num_threads(WORKERS).control(Control::Fixed).build().expect("a pool");
    Arc::new(Service { pool, store: Store::in_memory(Options::default()) })
}

/// What all keys have counted together.
fn counted(service: &Service) -> u64 {
    let all =
        service.store.run(Isolation::Snapshot, |it| it.scan::<[u8], _>(..).collect::<Result<Vec<_>, _>>());
    all.expect("readable").iter().map(|(_, count)| number(count)).sum()
}

#[test]
fn requests_that_wait_hold_up_no_other_connection() {
    const WAITING: usize = 20;
    const ROUNDS: u64 = 10;
    let service = service();
    let mut session = service.store.session().unwrap();
    let mut held = session.begin(Isolation::Serializable).unwrap();
    held.put(b"held", &0_u64.to_le_bytes()).unwrap();
    let waiting: Vec<_> = (0..WAITING).map(|_| Connection::open(&service)).collect();
    waiting.iter().for_each(|(connection, _)| connection.request("held"));
    until("they wait", || service.pool.stats().blocked as usize == WAITING);

    let others: Vec<_> = (0..CONNECTIONS).map(|_| Connection::open(&service)).collect();
    for round in 0..ROUNDS {
        // Two at once: the second one is served after the first one.
        for (number, (connection, _)) in others.iter().enumerate() {
            (0..2).for_each(|_| connection.request(&format!("own {number}")));
        }
        for (_, answers) in &others {
            let both = [(); 2].map(|()| answers.recv_timeout(LONG).expect("it is served"));
            assert_eq!(both, [2 * round + 1, 2 * round + 2]);
        }
    }
    assert!(waiting.iter().all(|(_, answers)| answers.try_recv().is_err()), "the key is held");
    held.commit().unwrap();
    let mut answered: Vec<u64> =
        waiting.iter().map(|(_, answers)| answers.recv_timeout(LONG).expect("it is served")).collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(1..=WAITING as u64));
    service.pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    assert_eq!(counted(&service), 2 * ROUNDS * CONNECTIONS as u64 + WAITING as u64);
}

#[test]
fn a_pool_that_drains_answers_all_that_has_come() {
    const REQUESTS: u64 = 5;
    let service = service();
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::open(&service)).collect();
    for (number, (connection, _)) in connections.iter().enumerate() {
        (0..REQUESTS).for_each(|_| connection.request(&format!("own {number}")));
    }
    service.pool.shutdown(Shutdown::Drain, LONG).expect("ends");
    for (_, answers) in &connections {
        assert!(answers.try_iter().eq(1..=REQUESTS), "in their order, and none is missing");
    }
    assert_eq!(counted(&service), REQUESTS * CONNECTIONS as u64);
}
