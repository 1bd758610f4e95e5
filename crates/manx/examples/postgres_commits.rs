//! Commits to a store in PostgreSQL, beside as many transactions of PostgreSQL itself: a server on
//! this machine with its default settings (`common/commits.rs`).
//!
//! ```text
//! cargo run --release -p manx --features postgres --example postgres_commits [CLIENTS [ROUNDS [SECONDS [ENTRIES]]]]
//! ```

#[path = "common/commits.rs"]
mod commits;

use commits::{Arguments, Run, VALUE, compare, elapsed_us, key};
use manx::txn::RemoteOptions;
use manx::txn::postgres::{self, Address};
use std::time::{Duration, Instant};
use testing::postgres::Postgres;
use tokio::task::{LocalSet, spawn_local};
use tokio_postgres::{Client, NoTls, Statement};

const TABLE: &str = "CREATE TABLE plain (key bytea PRIMARY KEY, value bytea NOT NULL)";
const PUT: &str = "INSERT INTO plain VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

/// A connection for each client, as programs have them, and one statement for each commit. Commits
/// that come at the same time share a sync of the disk there, too.
async fn plain(clients: Vec<(Client, Statement)>, time: Duration) -> (Run, Vec<(Client, Statement)>) {
    let began = Instant::now();
    let put = |(client, statement): (Client, Statement)| async move {
        let mut latencies_us = Vec::new();
        while began.elapsed() < time {
            let sent = Instant::now();
            client.execute(&statement, &[&key(), &&VALUE[..]]).await.expect("committed");
            latencies_us.push(elapsed_us(sent));
        }
        (latencies_us, (client, statement))
    };
    let tasks: Vec<_> = clients.into_iter().map(|client| spawn_local(put(client))).collect();
    let (mut latencies_us, mut clients) = (Vec::new(), Vec::new());
    for task in tasks {
        let (more, client) = task.await.expect("no panic");
        latencies_us.extend(more);
        clients.push(client);
    }
    (Run { latencies_us, took: began.elapsed() }, clients)
}

async fn connect(address: &str) -> (Client, Statement) {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("connected");
    tokio::spawn(connection);
    let statement = client.prepare(PUT).await.expect("prepared");
    (client, statement)
}

fn main() {
    let Some(server) = Postgres::start() else { return };
    server.sql(TABLE);
    let address: Address = server.address().parse().expect("an address");
    let arguments = Arguments::read();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut clients = Some(runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..arguments.clients {
            clients.push(connect(&server.address()).await);
        }
        clients
    }));
    compare(
        &arguments,
        "PostgreSQL",
        || postgres::open(&address, RemoteOptions::new()).expect("opened"),
        || {
            let its = clients.take().expect("they came back");
            let (run, its) = LocalSet::new().block_on(&runtime, plain(its, arguments.time));
            clients = Some(its);
            run
        },
    );
}
