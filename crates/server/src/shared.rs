//! What all parts of a server share.

use crate::acl::Acl;
use crate::backups::Backups;
use crate::bell::Bells;
use crate::buffers::Buffers;
use crate::candidates::Candidates;
use crate::keyspace::Keyspace;
use crate::memory::Memory;
use crate::options::Options;
use crate::peer::Peers;
use crate::pubsub::PubSub;
use crate::retry_locks::RetryLocks;
use crate::room::Room;
use crate::slowlog::Slowlog;
use crate::stop::Stop;
use crate::turn::Turn;
use crate::waiters::Waiters;
use crate::waker::Waker;
use manx::lock::Mutex;
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
    pub(crate) memory: Memory,
    pub(crate) buffers: Buffers,
    pub(crate) room: Room,
    /// What may be evicted.
    pub(crate) candidates: Mutex<Candidates>,
    /// Held while a write deletes what no client sees any more.
    pub(crate) purge: Mutex<()>,
    pub(crate) retry_locks: RetryLocks,
    pub(crate) turn: Turn,
    pub(crate) bells: Arc<Bells>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) pubsub: PubSub,
    pub(crate) acl: Acl,
    pub(crate) backups: Arc<Backups>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) counts: Counts,
    pub(crate) slowlog: Slowlog,
    pub(crate) writing: Writing,
    pub(crate) stop: Stop,
    pub(crate) started: Instant,
    /// The epoch of a request, if requests have a latency target.
    pub(crate) request: Option<Epoch>,
}

impl Shared {
    /// The state of a server that will listen at the address in its options.
    pub(crate) fn new(options: Options, store: Store) -> Result<Shared, Error> {
        let waker = Arc::default();
        Ok(Shared {
            address: options.listen,
            keyspace: Keyspace::new(&store, &options)?,
            store,
            memory: Memory::new(&options),
            buffers: Buffers::new(options.buffers_bytes_max),
            room: Room::default(),
            candidates: Mutex::default(),
            purge: Mutex::default(),
            retry_locks: RetryLocks::new(),
            turn: Turn::default(),
            bells: Bells::new(options.connections_max),
            waiters: Waiters::new(&waker),
            waker,
            pubsub: PubSub::default(),
            acl: Acl::new(options.password.as_ref(), options.acl_file.clone()),
            backups: Arc::new(Backups::new(options.backup_folder.clone())),
            peers: Arc::default(),
            counts: Counts::default(),
            slowlog: Slowlog::new(options.slowlog_above, options.slowlog_entries_max),
            writing: Writing::default(),
            stop: Stop::default(),
            started: Instant::now(),
            request: options.slo.map(|slo| Epoch::new("request", slo)),
            options,
        })
    }
}

/// How often something has happened, for INFO. All accesses are Relaxed: figures for people.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) idle: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) evicted_clients: AtomicU64,
}

impl Counts {
    pub(crate) fn reset(&self) {
        let Counts { connections, rejected, slow, idle, malformed, retries, evicted, evicted_clients } = self;
        for count in [connections, rejected, slow, idle, malformed, retries, evicted, evicted_clients] {
            count.store(0, Relaxed);
        }
    }
}

/// Whether the last write to the data's disk has failed.
#[derive(Default)]
pub(crate) struct Writing(AtomicBool);

impl Writing {
    /// Relaxed, as the counts are.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// A write has succeeded.
    #[inline]
    pub(crate) fn write_succeeded(&self) {
        if self.has_failed() {
            self.0.store(false, Relaxed);
        }
    }

    /// A write has failed. Says so on standard error, once until a write succeeds again.
    #[cold]
    pub(crate) fn write_failed(&self, error: &DataError) {
        if !self.0.swap(true, Relaxed) {
            // Perhaps no reader is there.
            let _ = writeln!(io::stderr(), "manx: a write has failed, and clients are told so: {error}");
        }
    }
}

/// Adds one to a count.
pub(crate) fn count(which: &AtomicU64) {
    which.fetch_add(1, Relaxed);
}
