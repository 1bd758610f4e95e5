//! A thread for each connection.
//!
//! It waits in a read of its socket, so a request takes a read and a write. Writes do not wait: if
//! a client does not take its answers, its socket is made non-blocking, and the thread waits for
//! either direction until all is sent. That needs no further descriptor; there may be none left.

use super::Serve;
use crate::connection::{Connection, Turn};
use crate::peer::Peer;
use crate::shared::Shared;
use platform::poll;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The stack of a connection's thread.
const STACK_BYTES: usize = 512 * 1024;

/// A thread for each connection.
pub(super) struct Threads {
    shared: Arc<Shared>,
}

impl Threads {
    pub(super) fn new(shared: Arc<Shared>) -> Threads {
        Threads { shared }
    }
}

impl Serve for Threads {
    fn adopt(&self, peer: Arc<Peer>) -> Result<(), String> {
        peer.socket.set_nonblocking(false).map_err(|error| format!("ERR {error}"))?;
        let connection = Connection::new(Arc::clone(&self.shared), peer)?;
        let name = format!("manx-{}", connection.peer().id);
        let started = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(|| serve(connection));
        started.map(drop).map_err(|error| format!("ERR there is no thread for this connection: {error}"))
    }

    fn end(&mut self, _: Duration) {}
}

fn serve(mut connection: Connection) {
    loop {
        match connection.turn() {
            Turn::Read => {}
            // The next read may wait for a client that waits for its answers.
            Turn::Again if !connection.is_behind() => {}
            Turn::Again | Turn::Write => match wait_until_sent(&mut connection) {
                Ok(Turn::Over) | Err(_) => return,
                Ok(_) => {}
            },
            Turn::Over => return,
        }
    }
}

/// Waits for a client to take its answers, and goes on reading meanwhile.
#[cold]
fn wait_until_sent(connection: &mut Connection) -> io::Result<Turn> {
    let peer = Arc::clone(connection.peer());
    peer.socket.set_nonblocking(true)?;
    loop {
        match connection.turn() {
            Turn::Again => {}
            // The end of what the client sends can be read for ever, so a thread that has seen it
            // waits for the other direction alone.
            Turn::Write => poll::wait_to_write(peer.socket.as_raw_fd(), connection.reads()),
            Turn::Read => {
                peer.socket.set_nonblocking(false)?;
                return Ok(Turn::Read);
            }
            Turn::Over => return Ok(Turn::Over),
        }
    }
}
