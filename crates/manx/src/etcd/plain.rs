//! Transactions and locks of etcd as they are: what a store and a range lock are compared with.

use super::address::Address;
use super::client::{Client, SILENCE};
use super::messages::{
    LEASE_GRANT, LEASE_REVOKE, LOCK, LeaseGrantRequest, LeaseRequest, LeaseResponse, LockRequest,
    LockResponse, Nothing, Op, TXN, TxnRequest, TxnResponse, UNLOCK, UnlockRequest,
};
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

    /// Makes a lease.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn grant(&self, ttl_s: i64) -> Result<i64, String> {
        let request = LeaseGrantRequest { ttl_s, id: 0 };
        self.call(LEASE_GRANT, &request).await.map(|lease: LeaseResponse| lease.id)
    }

    /// Ends a lease.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn revoke(&self, lease: i64) -> Result<(), String> {
        self.call::<_, Nothing>(LEASE_REVOKE, &LeaseRequest { id: lease }).await.map(drop)
    }

    /// Takes etcd's lock of this name. Returns the key that [`Plain::unlock`] takes.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn lock(&self, name: &[u8], lease: i64) -> Result<Vec<u8>, String> {
        let request = LockRequest { name: name.to_vec(), lease };
        self.call(LOCK, &request).await.map(|locked: LockResponse| locked.key)
    }

    /// Gives a lock back.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn unlock(&self, key: Vec<u8>) -> Result<(), String> {
        self.call::<_, Nothing>(UNLOCK, &UnlockRequest { key }).await.map(drop)
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
