//! What all parts of a server share.

use crate::keyspace::Keyspace;
use crate::options::Options;
use crate::peer::Peers;
use crate::stop::Stop;
use crate::transact::RetryLocks;
use manx::slo::Epoch;
use manx::txn::{DataError, Error, Store};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) store: Store,
    pub(crate) keyspace: Keyspace,
    pub(crate) turns: RetryLocks,
    pub(crate) peers: Arc<Peers>,
    pub(crate) counts: Counts,
    pub(crate) writing: Writing,
    pub(crate) stop: Stop,
    pub(crate) started: Instant,
    /// What a request is, if there is a target for it.
    pub(crate) request: Option<Epoch>,
}

impl Shared {
    /// Of a server that will listen where its options say.
    pub(crate) fn new(options: Options, store: Store) -> Result<Shared, Error> {
        Ok(Shared {
            address: options.listen,
            keyspace: Keyspace::new(&store, options.durable)?,
            store,
            turns: RetryLocks::new(),
            peers: Arc::default(),
            counts: Counts::default(),
            writing: Writing::default(),
            stop: Stop::default(),
            started: Instant::now(),
            request: options.slo.map(|slo| Epoch::new("request", slo)),
            options,
        })
    }
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

/// Whether what was last written to the data's disk is there.
#[derive(Default)]
pub(crate) struct Writing(AtomicBool);

impl Writing {
    /// Relaxed, as the counts.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// A write was made.
    #[inline]
    pub(crate) fn write_succeeded(&self) {
        if self.has_failed() {
            self.0.store(false, Relaxed);
        }
    }

    /// A write has failed. The server's operator is told, once until a write is made again.
    #[cold]
    pub(crate) fn write_failed(&self, error: &DataError) {
        if !self.0.swap(true, Relaxed) {
            // Perhaps no reader is there.
            let _ = writeln!(io::stderr(), "manx: a write has failed, and clients are told so: {error}");
        }
    }
}

/// One more.
pub(crate) fn count(which: &AtomicU64) {
    which.fetch_add(1, Relaxed);
}
