//! Transactions: snapshots without waiting, over any ordered store.
//!
//! A *transaction component* (TC) gives ids and snapshots ([`coordinator`]); a *data component*
//! (DC) keeps what was committed ([`Data`]). The store is both.
//!
//! | file | what |
//! | --- | --- |
//! | `coordinator/` | what each transaction may see: ids, snapshots, the oldest id that is needed |
//! | `data.rs`, `component.rs` | what a store stands on, and what it has taken over |
//! | `store.rs` | what sessions and transactions share |
//! | `session.rs` | what begins transactions, one at a time |
//! | `transaction.rs`, `scan.rs`, `savepoint.rs` | what a transaction sees, does and takes back |
//! | `commit.rs` | how it ends |
//! | `work.rs`, `reads.rs` | what it has to give back when it ends, and what it has read |
//! | `table.rs`, `point_index.rs`, `versions.rs` | the keys in order, by hash, and what each of them was |
//! | `link.rs` | how versions leave a list that others walk |
//! | `garbage.rs`, `kept.rs`, `retired.rs` | versions that nothing needs, and versions that nothing reads |
//! | `collector.rs` | the thread that frees what commits leave behind |
//! | `tables.rs` | several tables with names in one store |
//! | `timestamps.rs` | times that the user gives |
//! | `durable/` | a data component in files (feature `durable`) |
//! | `remote/` | what data components share whose data other processes keep |
//! | `etcd/`, `postgres/` | those in an etcd cluster and in PostgreSQL (features of these names) |
//! | `error.rs` | why a transaction could not go on |

pub mod coordinator;
// For the twins' tests.
#[doc(hidden)]
pub mod link;
platform::os_only! {
    mod collector;
    mod commit;
    mod component;
    mod data;
    #[cfg(feature = "durable")]
    pub mod durable;
    mod error;
    #[cfg(feature = "etcd")]
    pub mod etcd;
    mod garbage;
    mod kept;
    mod point_index;
    #[cfg(feature = "postgres")]
    pub mod postgres;
    mod reads;
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    pub(crate) mod remote;
    mod retired;
    mod row;
    mod savepoint;
    mod scan;
    mod session;
    mod store;
    mod table;
    mod tables;
    mod timestamps;
    mod transaction;
    mod versions;
    mod work;

    pub use commit::Committed;
    pub use data::{Batch, Bounds, Change, Data, DataError, Entry, Limits, Outcome, Recovered, Value};
    pub use error::Error;
    #[cfg(any(feature = "etcd", feature = "postgres"))]
    pub use remote::{Remote, options::RemoteOptions};
    pub use savepoint::Savepoint;
    pub use scan::Scan;
    pub use session::Session;
    pub use store::{Options, Stats, Store};
    pub use tables::{Table, TableScan, TableStats, Tables, TablesError};
    pub use transaction::{Isolation, Transaction};
}
