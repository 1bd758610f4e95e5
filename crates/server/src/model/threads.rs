//! A thread for each connection.
//!
//! It waits in a read of its socket, so a request takes a read and a write. Writes do not wait: if
//! a client does not take its answers, its socket is made non-blocking, and the thread waits for
//! either direction until all is sent. That needs no further descriptor; there may be none left.
//! While the connection listens (`waker.rs`), the thread waits in that way, too, and for its bell.

use crate::bell::Bell;
use crate::connection::{Connection, Turn};
use crate::peer::Peer;
use crate::shared::Shared;
use platform::poll::{self, Wanted};
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
            Turn::Read if !connection.listens() => {}
            Turn::Over => return,
            // The next read may wait for a client that waits for its answers, or for a message.
            Turn::Crowded if !connection.is_behind() && !connection.listens() => connection.wait_for_room(),
            Turn::Again if !connection.is_behind() && !connection.listens() => {}
            turn => match go_on(&mut connection, turn) {
                Ok(Turn::Over) | Err(_) => return,
                Ok(_) => {}
            },
        }
    }
}

/// Waits until a client has taken its answers, and as long as it listens; and goes on reading
/// meanwhile.
#[cold]
fn go_on(connection: &mut Connection, mut turn: Turn) -> io::Result<Turn> {
    let peer = Arc::clone(connection.peer());
    peer.socket.set_nonblocking(true)?;
    loop {
        match turn {
            Turn::Again => {}
            Turn::Crowded => connection.wait_for_room(),
            Turn::Read if !connection.listens() => {
                peer.socket.set_nonblocking(false)?;
                return Ok(Turn::Read);
            }
            Turn::Read | Turn::Write => {
                let bell = peer.bell().filter(|_| connection.listens());
                // After the client has closed its side, the socket is always readable, so the
                // thread then waits for the other direction alone.
                let wanted = Wanted { read: connection.reads(), write: turn == Turn::Write };
                poll::wait(peer.socket.as_raw_fd(), wanted, bell.map(Bell::descriptor));
                if let Some(bell) = bell {
                    bell.hear();
                }
            }
            Turn::Over => return Ok(Turn::Over),
        }
        turn = connection.turn();
    }
}
