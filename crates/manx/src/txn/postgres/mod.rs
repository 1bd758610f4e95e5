//! A data component in a table of PostgreSQL: what was committed is as safe as that database is,
//! and another server goes on with it when this one dies.
//!
//! | file | what |
//! | --- | --- |
//! | `address.rs` | where the database and the table are |
//! | `link.rs` | a connection that is made again, and what errors mean |
//! | `table.rs` | the table, the record of its owner, and committing; fencing |
//! | `owner.rs` | the lease, and the owner's turn, as `txn/remote` asks for them |
//!
//! The entries in memory, the queue and the thread are those of `txn/remote`, whose invariants hold
//! here. The database may be one with copies and a failover: then a commit is as durable as its
//! `synchronous_commit` and `synchronous_standby_names` say.

mod address;
mod link;
mod owner;
mod table;

pub use crate::address_error::AddressError;
pub use address::Address;

use super::remote::options::RemoteOptions;
use super::remote::queue::Queue;
use super::remote::{Kind, Remote, runtime};
use super::{DataError, Limits};
use std::sync::Arc;
use table::Site;

static KIND: Kind = Kind {
    name: "PostgreSQL",
    // A key is in a B-tree, where an entry has a third of a page at most. A message has 1 GiB.
    limits: Limits { key_bytes: 2600, value_bytes: 128 << 20, batch_bytes: 1 << 30, changes: 1 << 24 },
};

/// Finds the store in a table of PostgreSQL, or the place for it. It is not this server's before
/// [`Data::recover`](super::Data::recover), which makes the table if need be.
///
/// ```no_run
/// use manx::txn::postgres::{self, Address};
/// use manx::txn::{Isolation, Options, RemoteOptions, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address: Address = "postgres://app@10.0.0.1/shop".parse()?;
/// let data = postgres::open(&address.with_password("secret"), RemoteOptions::new())?;
/// // Waits while another server has the store.
/// let store = Store::open(Options::default(), Box::new(data))?;
/// store.run(Isolation::Snapshot, |it| it.put(b"key", b"value"))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// PostgreSQL does not answer, or does not let this client in; the table is of something else;
/// certificates cannot be used.
pub fn open(address: &Address, options: RemoteOptions) -> Result<Remote, DataError> {
    let place = address.to_string();
    let runtime = runtime(&place)?;
    let queue = Arc::new(Queue::new(table::SIZE));
    let site = Site::new(address, options.patience, Arc::clone(&queue))
        .map_err(|what| DataError::new(format!("{place}: {what}")))?;
    runtime.block_on(site.find()).map_err(DataError::new)?;
    Remote::start(&KIND, runtime, site, queue, options)
}
