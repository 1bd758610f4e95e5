//! The thread that accepts connections, and ends the server.
//!
//! At the end, it accepts no more clients. It shuts down each connection's receiving side: commands
//! that have arrived are still read and answered, then the connection ends. A client that does not
//! read its answers in time is disconnected. At last, sockets stay open for a moment, until the
//! clients have closed theirs: closing a socket with unread bytes would discard answers that are
//! under way.

use crate::listeners::Listeners;
use crate::model::Serving;
use crate::peer::Peer;
use crate::shared::{Shared, count};
use socket2::Socket;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the end waits for clients to close.
const LINGER: Duration = Duration::from_millis(500);
/// The time between two checks at the end.
const LOOK: Duration = Duration::from_millis(2);
/// The pause before the next try if there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts until it is over, and then ends the server.
pub(crate) fn accept(shared: &Arc<Shared>, mut listeners: Listeners, model: &Serving) {
    while !shared.stop.is_over() {
        if listeners.wait().is_err() {
            break;
        }
        // Edges: until no client is left.
        while !shared.stop.is_over() {
            match listeners.accept(shared.acl.default_user()) {
                Ok(peer) => admit(shared, model, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // Out of descriptors or memory. A client that waits is accepted when others have
                // left.
                Err(_) => sleep(PAUSE),
            }
        }
    }
    shared.stop.stop();
    drop(listeners);
    drain(shared, model);
}

fn admit(shared: &Arc<Shared>, model: &Serving, peer: Peer) {
    count(&shared.counts.connections);
    if shared.peers.count() >= shared.options.connections_max {
        count(&shared.counts.rejected);
        return refuse(&peer.socket, "ERR max number of clients reached");
    }
    let peer = Arc::new(peer);
    shared.peers.add(Arc::clone(&peer));
    if let Err(why) = model.adopt(Arc::clone(&peer)) {
        count(&shared.counts.rejected);
        refuse(&peer.socket, &why);
        shared.peers.remove(&peer);
    }
}

/// Tells the client why, if it takes that at once.
fn refuse(mut socket: &Socket, why: &str) {
    if socket.set_nonblocking(true).is_ok() {
        let _ = socket.write_all(format!("-{}\r\n", why.replace(['\r', '\n'], " ")).as_bytes());
    }
}

/// Ends all connections.
fn drain(shared: &Shared, model: &Serving) {
    let peers = shared.peers.snapshot();
    for peer in &peers {
        // It fails for clients that are gone.
        let _ = peer.socket.shutdown(Shutdown::Read);
    }
    let deadline = Instant::now() + shared.options.shutdown_timeout;
    while shared.peers.count() > 0 && Instant::now() < deadline {
        sleep(LOOK);
    }
    for peer in shared.peers.snapshot() {
        let _ = peer.socket.shutdown(Shutdown::Both);
    }
    let deadline = Instant::now() + LINGER;
    let mut open: Vec<&Socket> = peers.iter().map(|peer| &peer.socket).collect();
    open.retain(|socket| socket.set_nonblocking(true).is_ok());
    while !(open.is_empty() && shared.peers.count() == 0) && Instant::now() < deadline {
        open.retain(|socket| !is_closed(socket));
        sleep(LOOK);
    }
    model.end(shared.options.shutdown_timeout);
}

/// Whether the client has closed its side; what it sent before is thrown away.
fn is_closed(mut socket: &Socket) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}
