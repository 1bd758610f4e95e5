//! What cases and versions are called.

use super::arguments::Way;
use super::records::Kind;

/// Second by second.
pub const TIMELINE: &str = "40 threads, think 300 µs, 4 boosted in the middle third";
/// Group commit.
pub const DURABLE: &str = "durable, 8 threads, an update and a sync each";

/// Served over the loopback address.
pub const SERVED: &str = "server, 50 connections";
/// The same on a machine that has other things to do.
pub const SERVED_BUSY: &str = "server, 50 connections, beside 8 busy processes";

/// Messages between clients of a server.
pub const MESSAGES: &str = "messages between 25 pairs of clients";
/// The same on a machine that has other things to do.
pub const MESSAGES_BUSY: &str = "messages between 25 pairs of clients, beside 8 busy processes";
/// Processes that compute.
pub const BUSY: usize = 8;

/// The update workload, as the drivers name it.
pub const CHANGE: &str = "change";

/// The most clients that come and go: a server that lets 10,000 in may still see some that have
/// left.
pub const CHURNED: usize = 9_900;

/// The server that is compared with.
pub const REDIS: &str = "redis-server";
/// WiredTiger as it is.
pub const WIREDTIGER: &str = "wiredtiger";
/// Under the guard.
pub const GUARDED: &str = "wiredtiger, manx run";
/// With its source repaired.
pub const FIXED: &str = "wiredtiger, fixed";
/// Manx's store with its default protocol.
pub const MANX: &str = "manx";
/// `manx serve` with a thread for each connection.
pub const MANX_THREADS: &str = "manx, threads";
/// LMDB.
pub const LMDB: &str = "lmdb";
/// RocksDB.
pub const ROCKSDB: &str = "rocksdb";
/// SQLite.
pub const SQLITE: &str = "sqlite";
/// The durable component alone.
pub const COMPONENT: &str = "component alone";
/// Manx's store over it.
pub const OVER: &str = "manx over it";

/// The paper's update workload with `threads` threads.
pub fn allocation(threads: usize) -> String {
    format!("{threads} threads, think 300 µs")
}

/// A workload of YCSB, and by which distribution if it is not its own.
pub fn ycsb(workload: &str, keys: Option<Kind>, threads: usize) -> String {
    format!("YCSB {}{}, {threads} threads", workload.to_uppercase(), drawn(keys))
}

/// Connections to a server, all served by one thread of the client.
pub fn client(connections: usize) -> String {
    format!("{CLIENT}{connections} connections")
}

/// What the cases of the part `client` begin with.
pub const CLIENT: &str = "a client of one thread, ";

/// A workload of YCSB, or the update workload, by connections to a server.
pub fn served(workload: &str, keys: Option<Kind>, connections: usize) -> String {
    let what = match workload {
        CHANGE => "changes".to_owned(),
        letter => format!("YCSB {}", letter.to_uppercase()),
    };
    format!("{what}{} through a server, {connections} connections", drawn(keys))
}

/// Clients of a server that write over all keys again and again.
pub fn written_over(clients: usize, keys: usize, bytes: usize) -> String {
    let size = match bytes {
        mib if mib.is_multiple_of(1 << 20) => format!("{} MiB", mib >> 20),
        bytes => format!("{bytes} bytes"),
    };
    format!("{MEMORY}{clients} clients write over {keys} keys of {size}")
}

/// Connections that do nothing.
pub fn connected(connections: usize) -> String {
    format!("{MEMORY}{connections} idle connections")
}

/// Clients that come and go.
pub fn churned(clients: usize) -> String {
    format!("{MEMORY}up to {clients} clients that come and go")
}

/// What the cases about memory begin with.
pub const MEMORY: &str = "memory, ";

fn drawn(keys: Option<Kind>) -> String {
    keys.map(|kind| format!(" with {} keys", kind.name())).unwrap_or_default()
}

/// Reads beside `sessions` sessions without a transaction.
pub fn idle(sessions: usize) -> String {
    format!("read-only, {sessions} idle sessions")
}

/// Reads beside `transactions` transactions that have written and are not over.
pub fn writers(transactions: usize) -> String {
    format!("read-only, {transactions} active writers")
}

/// A version with four threads boosted.
pub fn boosted(name: &str) -> String {
    format!("{name}, boosted")
}

/// Manx's store by a protocol.
pub fn of(way: Way) -> &'static str {
    way.name()
}
