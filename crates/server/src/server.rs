//! A server, from its start to its end.

use crate::accept;
use crate::acl::Acl;
use crate::bell::Bells;
use crate::command;
use crate::descriptors::Descriptors;
use crate::housekeeping;
use crate::listeners::{Listeners, Refused};
use crate::model::Serving;
use crate::options::{Model, Options};
use crate::shared::Shared;
use crate::waiters;
use manx::txn::Store;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// The number of sessions of its store that a server takes beside one for each connection: for the
/// housekeeping, for a copy, and for clients that count keys at the same time.
pub const SESSIONS_BESIDE: u32 = 16;

/// A server that runs. Dropping it stops it and waits for its end.
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Stops a server, from wherever.
///
/// ```
/// use manx::txn::Store;
/// use server::{Options, Server};
///
/// let options = Options { listen: "127.0.0.1:0".parse()?, ..Options::default() };
/// let server = Server::start(options, Store::in_memory(manx::txn::Options::default()))?;
/// let stopper = server.stopper();
/// std::thread::spawn(move || stopper.stop());
/// server.wait();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

/// Why a server cannot start.
#[derive(Debug)]
pub enum StartError {
    /// It would be open to every client that reaches the machine.
    Exposed(SocketAddr),
    /// The file of users is wrong.
    Acl(String),
    /// No client could connect.
    NoConnections,
    /// A bound too small for any command.
    TooSmall(usize),
    /// It cannot listen there: at an address, or in a file.
    Listen(String, io::Error),
    /// The system has no thread, or no descriptor, for it.
    System(io::Error),
    /// The store cannot be read.
    Store(manx::txn::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Exposed(address) => {
                write!(to, "{address} can be reached from other machines, and there is no password")
            }
            StartError::Acl(why) => to.write_str(why),
            StartError::NoConnections => to.write_str("a server for no connections: allow one at least"),
            StartError::TooSmall(bytes) => {
                write!(to, "a bound of {bytes} bytes is too small for any command: 1024 are the least")
            }
            StartError::Listen(place, error) => write!(to, "{place}: cannot listen there: {error}"),
            StartError::System(error) => write!(to, "the system refuses what a server needs: {error}"),
            StartError::Store(error) => write!(to, "the store cannot be read: {error}"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Listen(_, error) | StartError::System(error) => Some(error),
            StartError::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl Server {
    /// Starts a server of this store. When this returns, clients can connect.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: Options, store: Store) -> Result<Server, StartError> {
        if options.connections_max == 0 {
            return Err(StartError::NoConnections);
        }
        let least = options.input_bytes_max.min(options.output_bytes_max);
        if least < 1024 {
            return Err(StartError::TooSmall(least));
        }
        let acl = Acl::new(options.password.as_ref(), options.acl_file.clone());
        acl.load(command::catalogue()).map_err(StartError::Acl)?;
        if !(options.listen.ip().is_loopback() || options.exposed) && acl.is_open() {
            return Err(StartError::Exposed(options.listen));
        }
        let needs_bells = options.model == Model::Threads;
        let Descriptors { connections: connections_max, bells } =
            Descriptors::new(options.connections_max, needs_bells);
        let refused = |Refused { place, error }| StartError::Listen(place, error);
        let (listeners, address) = Listeners::new(&options).map_err(refused)?;
        let options = Options { listen: address, connections_max, ..options };
        let shared = Shared::new(options, store).map_err(StartError::Store)?;
        let shared = Arc::new(Shared { acl, bells: Bells::new(bells), ..shared });
        let model = Serving::new(Arc::clone(&shared)).map_err(StartError::System)?;
        shared.stop.wakes(listeners.waker().map_err(StartError::System)?);
        let mut server = Server { shared, threads: Vec::new() };
        if server.shared.options.durable {
            let (begun, has_begun) = mpsc::channel();
            let shared = Arc::clone(&server.shared);
            server.spawn("manx-count", move || {
                // If the data cannot be read, clients are told so when they read it.
                let _ = housekeeping::count_keys(&shared, || _ = begun.send(()));
            })?;
            // An error if it could not begin.
            let _ = has_begun.recv();
        }
        let shared = Arc::clone(&server.shared);
        server.spawn("manx-keep", move || housekeeping::keep(&shared))?;
        let shared = Arc::clone(&server.shared);
        server.spawn("manx-deadlines", move || waiters::keep_deadlines(&shared.waiters, &shared.stop))?;
        let shared = Arc::clone(&server.shared);
        server.spawn("manx-accept", move || accept::accept(&shared, listeners, &model))?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread = thread::Builder::new().name(name.into()).spawn(run).map_err(StartError::System)?;
        self.threads.push(thread);
        Ok(())
    }

    /// Where it listens: with the port that it got, if any was asked for.
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Returns how many clients at once it serves: fewer than its options say, if the process may
    /// not open enough descriptors.
    pub fn connections_max(&self) -> usize {
        self.shared.options.connections_max
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Tells it to stop: it accepts no further client, answers what it has received, and ends.
    pub fn stop(&self) {
        self.shared.stop.stop();
    }

    /// Waits until it has ended: by [`Server::stop`], or because a client said SHUTDOWN. Then
    /// nothing of it has the store any more, but for connections that did not end in time, and
    /// [`Stopper`]s.
    pub fn wait(mut self) {
        self.join();
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A panic has said itself what it was about.
            let _ = thread.join();
        }
        self.shared.backups.stop();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Stopper {
    /// As [`Server::stop`].
    pub fn stop(&self) {
        self.0.stop.stop();
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Stopper").field(&self.0.address).finish()
    }
}
