//! Manx's store as the engine, with the bug of the paper and each of its repairs.
//!
//! The store makes a snapshot as WiredTiger does, and may meet a session that is taking its id. The
//! policies differ in what the thread does then. A session does not tell the store's waiters that
//! it has its id, so the policies that park are signalled here, after each write: the id is taken
//! by then, and the wait is longer by one write at most.

use super::{Decide, Engine, Failed, SESSIONS_MAX, See, Session, Write};
use manx::txn::coordinator::Protocol;
use manx::txn::durable::{Durable, DurableOptions};
use manx::txn::{self, DataError, Isolation, Options, Store};
use manx::wait::{Adaptive, Event, FixedSleep, Mutable, Policy as _, Yield};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time that [`Snapshots::Sleep`] sleeps between two looks.
const SLEEP: Duration = Duration::from_micros(100);

static EVENT: Event = Event::new();
static MUTABLE: Mutable = Mutable::new();

/// The policy of a thread that makes a snapshot while a session is taking its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Snapshots {
    /// Spin: the bug
    Spin,
    /// Yield the CPU
    Yield,
    /// Sleep for 100 µs at a time
    Sleep,
    /// Park until it is signalled
    Block,
    /// Spin, then yield, then sleep longer and longer: the paper's repair
    Adaptive,
    /// A few threads spin and the others park: the paper's future work
    Mutable,
    /// Take the id in the session's place, and wait for nothing: Manx's way
    Help,
}

impl Snapshots {
    fn protocol(self) -> Protocol {
        match self {
            Snapshots::Spin => baselines::txn::SPIN,
            Snapshots::Yield => Protocol::Wait(|is_taken| {
                Yield.until(is_taken);
            }),
            Snapshots::Sleep => Protocol::Wait(|is_taken| {
                FixedSleep::new(SLEEP).until(is_taken);
            }),
            Snapshots::Block => Protocol::Wait(|is_taken| {
                EVENT.until(is_taken);
            }),
            Snapshots::Adaptive => Protocol::Adaptive(Adaptive::DEFAULT),
            Snapshots::Mutable => Protocol::Wait(|is_taken| {
                MUTABLE.until(is_taken);
            }),
            Snapshots::Help => Protocol::Help,
        }
    }

    /// Tells parked threads that an id is taken.
    fn signal(self) {
        match self {
            Snapshots::Block => EVENT.signal_all(),
            Snapshots::Mutable => MUTABLE.signal_all(),
            _ => (),
        }
    }
}

/// Manx's store in a folder.
#[derive(Debug)]
pub struct ManxStore {
    store: Store,
    snapshots: Snapshots,
    /// The last place in the log that was given to a commit.
    last: Arc<AtomicU64>,
}

impl ManxStore {
    /// Opens the store in a folder, or makes one if the folder is empty.
    ///
    /// # Errors
    /// The folder's.
    pub fn open(folder: &Path, snapshots: Snapshots, cache_mb: u32) -> Result<ManxStore, DataError> {
        let data = Durable::open(folder, DurableOptions::new().cache_bytes((cache_mb as usize) << 20))?;
        let options = Options::new().protocol(snapshots.protocol()).sessions_max(SESSIONS_MAX);
        let store = Store::open(options, Box::new(data))?;
        Ok(ManxStore { store, snapshots, last: Arc::default() })
    }
}

impl Engine for ManxStore {
    fn version(&self) -> String {
        let name = clap::ValueEnum::to_possible_value(&self.snapshots).expect("all are shown");
        format!("manx {}, snapshots {}", env!("CARGO_PKG_VERSION"), name.get_name())
    }

    fn session(&self) -> Result<Box<dyn Session>, Failed> {
        let (session, snapshots, last) = (self.store.session()?, self.snapshots, Arc::clone(&self.last));
        Ok(Box::new(StoreSession { session, snapshots, last }))
    }
}

struct StoreSession {
    session: txn::Session,
    snapshots: Snapshots,
    last: Arc<AtomicU64>,
}

impl Session for StoreSession {
    fn transact(&mut self, key: &[u8], decide: Decide<'_>) -> Result<(), Failed> {
        let mut transaction = self.session.begin(Isolation::Snapshot)?;
        let found = transaction.get(key)?;
        let written = match decide(found.as_deref()) {
            Write::Nothing => return Ok(()),
            Write::Put(value) => transaction.put_shared(key, value.into()),
            Write::Delete => transaction.delete(key).map(drop),
        };
        // Also after a conflict: the id was taken before it was found.
        self.snapshots.signal();
        written?;
        let place = transaction.commit_early()?.place;
        // Release: a flush that sees this place asks for what was committed before.
        self.last.fetch_max(place, Ordering::Release);
        Ok(())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], see: See<'_>) -> Result<(), Failed> {
        let mut transaction = self.session.begin(Isolation::Snapshot)?;
        let range = (Bound::Included(from), Bound::Excluded(to));
        Ok(transaction.scan::<[u8], _>(range).visit(see)?)
    }

    fn flush(&mut self) -> Result<(), Failed> {
        // Acquire: pairs with a commit.
        Ok(self.session.store().wait(self.last.load(Ordering::Acquire))?)
    }
}

impl From<txn::Error> for Failed {
    fn from(error: txn::Error) -> Failed {
        if error.is_retryable() { Failed::Conflict } else { Failed::Engine(error.to_string()) }
    }
}
