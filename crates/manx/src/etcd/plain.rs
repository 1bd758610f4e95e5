//! Transactions of etcd as they are, one for each commit: what a store is compared with.

use super::address::Address;
use super::client::Client;
use super::messages::{Op, TXN, TxnRequest, TxnResponse};
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
        Client::new(address).map(Plain)
    }

    /// Puts an entry, in a transaction of its own.
    ///
    /// # Errors
    /// What etcd says.
    pub async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        let request = TxnRequest { success: vec![Op::put(key, value)], ..TxnRequest::default() };
        let until = Instant::now() + Duration::from_secs(10);
        let answer: Result<TxnResponse, _> = self.0.call(TXN, &request, until).await;
        answer.map(drop).map_err(|failed| failed.to_string())
    }
}
