//! Single calls of etcd, by which tests do what another client may do.

use super::address::Address;
use super::client::{Client, SILENCE};
use super::messages::{LEASE_REVOKE, LeaseRequest, Nothing, Op, TXN, TxnRequest, TxnResponse};
use prost::Message;
use std::time::Duration;
use tokio::time::Instant;

/// A client without a store.
pub struct Plain(Client);

impl Plain {
    /// Connects lazily. To be called in a runtime of tokio.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn new(address: &Address) -> Result<Plain, String> {
        Client::new(address, SILENCE).map(Plain)
    }

    /// Puts an entry, in a transaction of its own.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let request = TxnRequest { success: vec![Op::put(key, value, 0)], ..TxnRequest::default() };
        self.call::<_, TxnResponse>(TXN, &request).await.map(drop)
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn revoke(&self, lease: i64) -> Result<(), String> {
        self.call::<_, Nothing>(LEASE_REVOKE, &LeaseRequest { id: lease }).await.map(drop)
    }

    async fn call<Q, R>(&self, path: &'static str, request: &Q) -> Result<R, String>
    where
        Q: Message + Clone + 'static,
        R: Message + Default + 'static,
    {
        let until = Instant::now() + Duration::from_secs(10);
        self.0.call(path, request, until).await.map_err(|failed| failed.to_string())
    }
}
