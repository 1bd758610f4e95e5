//! What all parts of a server share.

use crate::keyspace::Keyspace;
use crate::options::Options;
use crate::peer::Peers;
use crate::stop::Stop;
use crate::transact::Turns;
use manx::slo::Epoch;
use manx::txn::Store;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) keyspace: Keyspace,
    pub(crate) turns: Turns,
    pub(crate) peers: Arc<Peers>,
    pub(crate) counts: Counts,
    pub(crate) stop: Stop,
    pub(crate) started: Instant,
    /// What a request is, if there is a target for it.
    pub(crate) request: Option<Epoch>,
}

/// What happened, for INFO. Relaxed all over: figures for people.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) idle: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) retries: AtomicU64,
}

impl Counts {
    pub(crate) fn reset(&self) {
        let Counts { connections, rejected, slow, idle, malformed, retries } = self;
        for count in [connections, rejected, slow, idle, malformed, retries] {
            count.store(0, Relaxed);
        }
    }
}

/// One more.
pub(crate) fn count(which: &AtomicU64) {
    which.fetch_add(1, Relaxed);
}
