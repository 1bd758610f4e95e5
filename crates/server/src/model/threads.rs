//! A thread for each connection.
//!
//! It waits in a read of its socket, so a request takes a read and a write. Writes do not wait: if
//! a client does not take its answers, its socket is made non-blocking, and the thread waits for
//! either direction until all is sent. That needs no further descriptor; there may be none left.

use crate::connection::{Connection, Turn};
use crate::peer::Peer;
use crate::shared::Shared;
use platform::poll;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;

/// The stack of a connection's thread.
const STACK_BYTES: usize = 512 * 1024;

/// Starts a thread that serves this connection until its end.
pub(super) fn adopt(shared: Arc<Shared>, peer: Arc<Peer>) -> Result<(), String> {
    peer.socket.set_nonblocking(false).map_err(|error| format!("ERR {error}"))?;
    let connection = Connection::new(shared, peer)?;
    let name = format!("manx-{}", connection.peer().id);
    let started = thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(|| serve(connection));
    started.map(drop).map_err(|error| format!("ERR there is no thread for this connection: {error}"))
}

fn serve(mut connection: Connection) {
    loop {
        match connection.turn() {
            Turn::Read => {}
            Turn::Crowded if !connection.is_behind() => connection.wait_for_room(),
            // The next read may wait for a client that waits for its answers.
            Turn::Again if !connection.is_behind() => {}
            Turn::Again | Turn::Crowded | Turn::Write => match wait_until_sent(&mut connection) {
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
            Turn::Crowded => connection.wait_for_room(),
            // After the client has closed its side, the socket is always readable, so the thread
            // then waits for the other direction alone.
            Turn::Write => poll::wait_to_write(peer.socket.as_raw_fd(), connection.reads()),
            Turn::Read => {
                peer.socket.set_nonblocking(false)?;
                return Ok(Turn::Read);
            }
            Turn::Over => return Ok(Turn::Over),
        }
    }
}
