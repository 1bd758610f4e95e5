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

/// Serves connections.
pub(crate) trait Serve: Send {
    /// Serves a new connection until its end.
    ///
    /// # Errors
    /// Why it cannot be served, for the client.
    fn adopt(&self, peer: Arc<Peer>) -> Result<(), String>;

    /// There will be no connection any more, and all have ended. Waits for its threads.
    fn end(&mut self, timeout: Duration);
}

/// The model that was asked for.
///
/// # Errors
/// The system has no thread, or no epoll, for it.
pub(crate) fn of(shared: &Arc<Shared>) -> io::Result<Box<dyn Serve>> {
    Ok(match shared.options.model {
        Model::Threads => Box::new(threads::Threads::new(Arc::clone(shared))),
        Model::Pool => Box::new(pool::Pool::new(Arc::clone(shared))?),
    })
}
