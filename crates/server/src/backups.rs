//! Copies of the store that clients ask for (BGSAVE), one at a time, in a thread that ends with the
//! copy.
//!
//! Each copy is a folder of its own in the folder of copies. It has its name once it is whole
//! ([`Store::backup_with`]). A server that stops breaks off the copy that is being made.

use manx::lock::Mutex;
use manx::txn::Store;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// See [the module](self).
pub(crate) struct Backups {
    folder: Option<PathBuf>,
    state: Mutex<State>,
    /// The thread of the last copy. Its lock is taken before that of the state.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The server stops. It changes under the thread's lock.
    stopping: AtomicBool,
}

/// What INFO says of copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// When the copy was begun that is being made.
    pub(crate) running_since: Option<Instant>,
    /// When the last copy was complete, or else the server began; since 1970.
    pub(crate) last_unix_s: u64,
    /// How long the last copy took, whole or not.
    pub(crate) last_took: Option<Duration>,
    pub(crate) last_failed: bool,
}

/// Why no copy was begun.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The server has no folder for copies.
    NoFolder,
    /// One is being made.
    Running,
    /// The system has no thread for it.
    NoThread(String),
}

impl Backups {
    pub(crate) fn new(folder: Option<PathBuf>) -> Backups {
        let state =
            State { running_since: None, last_unix_s: now().as_secs(), last_took: None, last_failed: false };
        Backups {
            folder,
            state: Mutex::new(state),
            thread: Mutex::new(None),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref()
    }

    pub(crate) fn state(&self) -> State {
        *self.state.lock()
    }

    /// Begins a copy of the store.
    pub(crate) fn begin(self: &Arc<Self>, store: &Store) -> Result<(), Refused> {
        let folder = self.folder.as_ref().ok_or(Refused::NoFolder)?;
        let mut thread = self.thread.lock();
        if self.state().running_since.is_some() || self.stopping.load(Relaxed) {
            return Err(Refused::Running);
        }
        if let Some(last) = thread.take() {
            // It has nothing more to do.
            let _ = last.join();
        }
        self.state.lock().running_since = Some(Instant::now());
        let copy = folder.join(format!("backup-{}", now().as_millis()));
        let (own, store) = (Arc::clone(self), store.clone());
        let made = thread::Builder::new().name("manx-backup".into()).spawn(move || own.make(&store, copy));
        *thread = Some(made.map_err(|error| {
            self.state.lock().running_since = None;
            Refused::NoThread(error.to_string())
        })?);
        Ok(())
    }

    fn make(&self, store: &Store, copy: PathBuf) {
        // Relaxed: a flag alone.
        let go_on = |_| match self.stopping.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let made = store.backup_with(copy, go_on);
        if let Err(error) = &made
            && !self.stopping.load(Relaxed)
        {
            // Perhaps no reader is there.
            let _ = writeln!(io::stderr(), "manx: a backup has failed: {error}");
        }
        let mut state = self.state.lock();
        state.last_took = state.running_since.take().map(|began| began.elapsed());
        state.last_failed = made.is_err();
        if made.is_ok() {
            state.last_unix_s = now().as_secs();
        }
    }

    /// Breaks off the copy that is being made, and waits for its end. Then no copy has the store.
    pub(crate) fn stop(&self) {
        let mut thread = self.thread.lock();
        self.stopping.store(true, Relaxed);
        if let Some(thread) = thread.take() {
            // A panic has said itself what it was about.
            let _ = thread.join();
        }
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
