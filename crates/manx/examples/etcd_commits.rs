//! Commits to a store in etcd, beside as many transactions of etcd itself: three members on this
//! machine, clients that each put one entry of 100 bytes and go on when that is durable.
//!
//! ```text
//! cargo run --release -p manx --features etcd --example etcd_commits [CLIENTS [ROUNDS [SECONDS [ENTRIES]]]]
//! ```
//!
//! Rounds alternate; a ratio is that of a round's two rates. Then the store gets ENTRIES entries,
//! and other servers take it over.

use manx::etcd::{Address, Plain};
use manx::txn::etcd::{Etcd, EtcdOptions};
use manx::txn::{Batch, Change, Data, Recovered, Value};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testing::etcd::Cluster;

const KEYS: u64 = 10_000;
const VALUE: [u8; 100] = [b'v'; 100];

/// How long each commit took, and for how long the clients were at work.
struct Run {
    latencies_us: Vec<u64>,
    took: Duration,
}

impl Run {
    fn rate(&self) -> f64 {
        self.latencies_us.len() as f64 / self.took.as_secs_f64()
    }

    fn show(&mut self, name: &str) {
        self.latencies_us.sort_unstable();
        let at = |part: f64| {
            let index = (self.latencies_us.len() as f64 * part) as usize;
            self.latencies_us.get(index).or(self.latencies_us.last()).map_or(0.0, |us| *us as f64 / 1e3)
        };
        println!(
            "{name:>6}: {:7.0} commits/s; p50 {:.1}, p99 {:.1}, p99.9 {:.1}, maximum {:.1} ms",
            self.rate(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
        );
    }
}

fn key() -> Vec<u8> {
    format!("key{:08}", fastrand::u64(..KEYS)).into_bytes()
}

fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// A thread for each client.
fn store(it: &Etcd, owner: Recovered, ids: &AtomicU64, clients: usize, time: Duration) -> Run {
    let began = Instant::now();
    let latencies_us = thread::scope(|scope| {
        let client = || {
            let mut latencies_us = Vec::new();
            while began.elapsed() < time {
                let change = [Change::Put { key: Value::from(key()), value: VALUE.into() }];
                let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
                let sent = Instant::now();
                it.apply(Batch { epoch: owner.epoch, id, ..Batch::new(&change, true) }).expect("committed");
                latencies_us.push(elapsed_us(sent));
            }
            latencies_us
        };
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    Run { latencies_us, took: began.elapsed() }
}

/// A task for each client, all on one connection: the cheapest client that there is.
async fn plain(it: &Rc<Plain>, clients: usize, time: Duration) -> Run {
    let began = Instant::now();
    let client = |it: Rc<Plain>| async move {
        let mut latencies_us = Vec::new();
        while began.elapsed() < time {
            let sent = Instant::now();
            it.put([&b"plain/"[..], &key()].concat(), VALUE.into()).await.expect("committed");
            latencies_us.push(elapsed_us(sent));
        }
        latencies_us
    };
    let tasks: Vec<_> = (0..clients).map(|_| tokio::task::spawn_local(client(Rc::clone(it)))).collect();
    let mut latencies_us = Vec::new();
    for task in tasks {
        latencies_us.extend(task.await.expect("no panic"));
    }
    Run { latencies_us, took: began.elapsed() }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let mut argument = |otherwise: usize| arguments.next().unwrap_or(otherwise);
    let (clients, rounds, seconds) = (argument(64), argument(5), argument(3));
    let time = Duration::from_secs(seconds as u64);
    let Some(cluster) = Cluster::start(3) else { return };
    let address: Address =
        format!("etcd://{}/store", cluster.endpoints().join(",")).parse().expect("an address");
    let etcd = Etcd::open(&address, EtcdOptions::new()).expect("opened");
    let owner = etcd.recover().expect("taken over");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let plain_client = {
        let _inside = runtime.enter();
        Rc::new(Plain::new(&address).expect("connected"))
    };
    println!("{clients} clients, {rounds} rounds of {seconds} s each");
    let ids = AtomicU64::new(owner.last_id);
    let (mut ratios, mut all) = (Vec::new(), [const { Vec::new() }; 2]);
    for round in 0..rounds {
        let ours = || store(&etcd, owner, &ids, clients, time);
        let theirs = || tokio::task::LocalSet::new().block_on(&runtime, plain(&plain_client, clients, time));
        let (mut ours, mut theirs) = if round % 2 == 0 {
            let ours = ours();
            (ours, theirs())
        } else {
            let theirs = theirs();
            (ours(), theirs)
        };
        ours.show("store");
        theirs.show("etcd");
        ratios.push(ours.rate() / theirs.rate());
        all[0].append(&mut ours.latencies_us);
        all[1].append(&mut theirs.latencies_us);
    }
    ratios.sort_by(f64::total_cmp);
    let (least, median, most) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!("ratio of rates: median {median:.2} ({least:.2} to {most:.2})");
    for (name, latencies_us) in ["store", "etcd"].into_iter().zip(all) {
        Run { latencies_us, took: time * rounds as u32 }.show(name);
    }
    let (entries, before) = (argument(100_000), resident_bytes());
    let numbers: Vec<usize> = (0..entries).collect();
    let began = Instant::now();
    for some in numbers.chunks(10_000) {
        let put = |number: &usize| {
            let key = Value::from(format!("entry{number:011}").as_bytes());
            Change::Put { key, value: VALUE.into() }
        };
        let changes: Vec<Change> = some.iter().map(put).collect();
        let id = ids.fetch_add(1, Ordering::Relaxed) + 1;
        etcd.apply(Batch { epoch: owner.epoch, id, ..Batch::new(&changes, true) }).expect("committed");
    }
    let each = resident_bytes().saturating_sub(before) / entries.max(1);
    println!(
        "{entries} entries of 16 and 100 bytes: put in {:.1?}, about {each} bytes of memory each",
        began.elapsed()
    );
    // One that waits has read them before; it gets some time for that.
    let next = Etcd::open(&address, EtcdOptions::new()).expect("opened");
    let took = thread::scope(|scope| {
        let waits = scope.spawn(|| next.recover().map(|_| Instant::now()));
        thread::sleep(Duration::from_secs(10));
        let began = Instant::now();
        drop(etcd);
        waits.join().expect("no panic").expect("taken over") - began
    });
    println!("taken over by a server that waited: in {took:.1?}");
    drop(next);
    let etcd = Etcd::open(&address, EtcdOptions::new()).expect("opened");
    let began = Instant::now();
    etcd.recover().expect("taken over");
    println!("taken over by one that was just started: in {:.1?}", began.elapsed());
}

/// The process's memory, by the kernel.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}
