//! A data component in an etcd cluster: what was committed is on a majority of its members, and
//! another server goes on with it when this one dies.
//!
//! | file | what |
//! | --- | --- |
//! | `keys.rs` | the store's keys in etcd, and the record of its owner |
//! | `chain.rs` | taking over, and committing: transactions that form a chain; fencing |
//! | `follow.rs` | reading all entries, and following their owner's changes |
//! | `parts.rs` | how a batch is cut that is too large for one transaction |
//! | `owner.rs` | the lease, and the owner's turn, as `txn/remote` asks for them |
//!
//! The entries in memory, the queue and the thread are those of `txn/remote`, whose invariants hold
//! here: also if a minority of the members dies at any moment. If etcd has no room (`chain.rs`) the
//! owner stays: it reads, and writes again when there is room.

mod chain;
mod follow;
mod keys;
mod owner;
mod parts;

use super::remote::options::RemoteOptions;
use super::remote::queue::Queue;
use super::remote::{Kind, Remote, runtime};
use super::{DataError, Limits};
use crate::etcd::Address;
use crate::etcd::client::{Client, SILENCE};
use chain::Site;
use keys::Keys;
use std::sync::Arc;

static KIND: Kind = Kind {
    name: "etcd",
    // With a key and a value of these lengths a request is still within the 1.5 MiB that etcd
    // allows by default.
    limits: Limits { key_bytes: 64 << 10, value_bytes: 1 << 20, batch_bytes: 1 << 30, changes: 1 << 24 },
};

/// Finds the store below a prefix of an etcd cluster, or the place for it. It is not this server's
/// before [`Data::recover`](super::Data::recover).
///
/// ```no_run
/// use manx::etcd::Address;
/// use manx::txn::{Isolation, Options, RemoteOptions, Store, etcd};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let address: Address = "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/shop".parse()?;
/// let data = etcd::open(&address, RemoteOptions::new())?;
/// // Waits while another server has the store.
/// let store = Store::open(Options::default(), Box::new(data))?;
/// store.run(Isolation::Snapshot, |it| it.put(b"key", b"value"))?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Etcd does not answer, or does not let this client in; the prefix has keys of something else.
pub fn open(address: &Address, options: RemoteOptions) -> Result<Remote, DataError> {
    let place = address.to_string();
    let runtime = runtime(&place)?;
    // Connections belong to the runtime.
    let client = {
        let _inside = runtime.enter();
        Client::new(address, SILENCE).map_err(|what| DataError::new(format!("{place}: {what}")))?
    };
    let queue = Arc::new(Queue::new(chain::SIZE));
    let site = Site {
        client: Arc::new(client),
        keys: Keys::new(address.prefix()),
        place,
        patience: options.patience,
        queue: Arc::clone(&queue),
    };
    runtime.block_on(site.find()).map_err(DataError::new)?;
    Remote::start(&KIND, runtime, site, queue, options)
}
