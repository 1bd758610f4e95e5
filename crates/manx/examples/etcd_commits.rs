//! Commits to a store in etcd, beside as many transactions of etcd itself: three members on this
//! machine (`common/commits.rs`).
//!
//! ```text
//! cargo run --release -p manx --features etcd --example etcd_commits [CLIENTS [ROUNDS [SECONDS [ENTRIES]]]]
//! ```

#[path = "common/commits.rs"]
mod commits;

use commits::{Arguments, Run, VALUE, compare, elapsed_us, key};
use manx::etcd::{Address, Plain};
use manx::txn::{RemoteOptions, etcd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use testing::etcd::Cluster;
use tokio::task::{LocalSet, spawn_local};

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
    let tasks: Vec<_> = (0..clients).map(|_| spawn_local(client(Rc::clone(it)))).collect();
    let mut latencies_us = Vec::new();
    for task in tasks {
        latencies_us.extend(task.await.expect("no panic"));
    }
    Run { latencies_us, took: began.elapsed() }
}

fn main() {
    let Some(cluster) = Cluster::start(3) else { return };
    let address: Address =
        format!("etcd://{}/store", cluster.endpoints().join(",")).parse().expect("an address");
    let arguments = Arguments::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = {
        let _inside = runtime.enter();
        Rc::new(Plain::new(&address).expect("connected"))
    };
    compare(
        &arguments,
        "etcd",
        || etcd::open(&address, RemoteOptions::new()).expect("opened"),
        || LocalSet::new().block_on(&runtime, plain(&client, arguments.clients, arguments.time)),
    );
}
