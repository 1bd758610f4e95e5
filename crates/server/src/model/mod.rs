//! What serves connections: a thread for each ([`threads`]), or the workers of a pool ([`pool`]).
//!
//! Both do the same with a connection ([`Connection::turn`](crate::connection::Connection::turn));
//! they differ in how they wait for the client. A thread that waits costs memory, and the kernel
//! chooses among the threads that can go on. A pool has as many threads at work as there are CPUs,
//! and chooses itself.

mod pool;
mod threads;

use crate::options::Model;
use crate::peer::Peer;
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The threads that serve connections.
pub(crate) enum Serving {
    Threads(Arc<Shared>),
    Pool(pool::Pool),
}

impl Serving {
    /// In the model that the options name.
    ///
    /// # Errors
    /// The system has no thread, or no epoll, for it.
    pub(crate) fn new(shared: Arc<Shared>) -> io::Result<Serving> {
        match shared.options.model {
            Model::Threads => {
                shared.waker.set(Peer::ring);
                Ok(Serving::Threads(shared))
            }
            Model::Pool => pool::Pool::new(shared).map(Serving::Pool),
        }
    }

    /// Serves a new connection until its end.
    ///
    /// # Errors
    /// Why it cannot be served, for the client.
    pub(crate) fn adopt(&self, peer: Arc<Peer>) -> Result<(), String> {
        match self {
            Serving::Threads(shared) => threads::adopt(Arc::clone(shared), peer),
            Serving::Pool(pool) => pool.adopt(peer),
        }
    }

    /// All connections have ended, and there will be no more. Waits for the pool's threads; a
    /// connection's own thread ends with its connection.
    pub(crate) fn end(&self, timeout: Duration) {
        match self {
            Serving::Threads(_) => {}
            Serving::Pool(pool) => pool.end(timeout),
        }
    }
}
