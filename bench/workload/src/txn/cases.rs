//! What cases and versions are called.

use super::records::Kind;

/// Second by second.
pub const TIMELINE: &str = "40 threads, think 300 µs, 4 boosted in the middle third";
/// Group commit.
pub const DURABLE: &str = "durable, 8 threads, an update and a sync each";

/// WiredTiger as it is.
pub const WIREDTIGER: &str = "wiredtiger";
/// Under the guard.
pub const GUARDED: &str = "wiredtiger, manx run";
/// With its source repaired.
pub const FIXED: &str = "wiredtiger, fixed";
/// Manx's store with its default protocol.
pub const MANX: &str = "manx";
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
