//! How a server owns a store whose data is kept elsewhere.

use crate::txn::DataError;
use std::time::Duration;

/// How a server owns a store whose data other processes keep, as in etcd or PostgreSQL.
///
/// ```
/// use manx::txn::RemoteOptions;
/// use std::time::Duration;
///
/// let patient = RemoteOptions::new().lease_s(10).patience(Duration::from_secs(30));
/// let telling = patient.when_waiting(|place| println!("{place}: another server has it"));
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct RemoteOptions {
    pub(in crate::txn) lease_s: u16,
    pub(in crate::txn) patience: Duration,
    pub(in crate::txn) at_once: bool,
    pub(in crate::txn) waiting: Option<fn(&str)>,
    pub(in crate::txn) lost: Option<fn(&DataError)>,
}

impl RemoteOptions {
    /// The defaults.
    pub const fn new() -> RemoteOptions {
        let patience = Duration::from_secs(10);
        RemoteOptions { lease_s: 3, patience, at_once: false, waiting: None, lost: None }
    }

    /// Sets for how many seconds the store is this server's after it was last heard of. A server
    /// that waits takes over after about this time. The default is 3; etcd gives no lease below
    /// one and a half of its election timeouts, which is 2 by default.
    pub const fn lease_s(mut self, seconds: u16) -> RemoteOptions {
        self.lease_s = if seconds == 0 { 1 } else { seconds };
        self
    }

    /// Sets for how long a commit is tried while the other side does not answer. Then its outcome
    /// is unknown, and nothing is changed any more. The default is 10 s.
    pub const fn patience(mut self, time: Duration) -> RemoteOptions {
        self.patience = time;
        self
    }

    /// Sets whether the store is taken from a server that still has it. By default this server
    /// waits until that one is gone. The older one notices at its next write, or when it next
    /// renews its lease; until then its reads may be old.
    pub const fn at_once(mut self, at_once: bool) -> RemoteOptions {
        self.at_once = at_once;
        self
    }

    /// Sets what is called, once and with the store's address, when another server has the store
    /// and this one waits.
    pub const fn when_waiting(mut self, tell: fn(&str)) -> RemoteOptions {
        self.waiting = Some(tell);
        self
    }

    /// Sets what is called, once, when the store is no longer this server's, or the other side has
    /// not answered in time: nothing is read or changed any more.
    ///
    /// ```
    /// use manx::txn::RemoteOptions;
    ///
    /// let ending = RemoteOptions::new().when_lost(|error| {
    ///     eprintln!("{error}");
    ///     std::process::exit(1);
    /// });
    /// ```
    pub const fn when_lost(mut self, tell: fn(&DataError)) -> RemoteOptions {
        self.lost = Some(tell);
        self
    }

    pub(in crate::txn) fn lease_ns(&self) -> u64 {
        u64::from(self.lease_s) * platform::clock::SECOND_NS
    }
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions::new()
    }
}
