//! The thread that accepts connections, and ends the server.
//!
//! At the end, it accepts no more clients. It shuts down each connection's receiving side: commands
//! that have arrived are still read and answered, then the connection ends. A client that does not
//! read its answers in time is disconnected. At last, sockets stay open for a moment, until the
//! clients have closed theirs: closing a socket with unread bytes would discard answers that are
//! under way.

use crate::model::Serving;
use crate::peer::Peer;
use crate::shared::{Shared, count};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use socket2::{Socket, TcpKeepalive};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A client that is silent for this time gets TCP keepalive probes, as from Redis.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// How long the end waits for clients to close.
const LINGER: Duration = Duration::from_millis(500);
/// The time between two checks at the end.
const LOOK: Duration = Duration::from_millis(2);
/// The pause before the next try if there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// Also the token of `Stop`'s waker: the loop reads `Stop` after each event.
pub(crate) const LISTENER: Token = Token(0);

/// Accepts until it is over, and then ends the server.
pub(crate) fn accept(shared: &Arc<Shared>, listener: TcpListener, mut poll: Poll, model: &Serving) {
    let mut events = Events::with_capacity(4);
    let mut next_id = 1;
    while !shared.stop.is_over() {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => break,
            _ => {}
        }
        // Edges: until no client is left.
        while !shared.stop.is_over() {
            match listener.accept() {
                Ok((socket, address)) => {
                    admit(shared, model, next_id, socket.into(), address);
                    next_id += 1;
                }
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
    drop(listener);
    drain(shared, model);
}

fn admit(shared: &Arc<Shared>, model: &Serving, id: u64, socket: Socket, address: SocketAddr) {
    count(&shared.counts.connections);
    if shared.peers.count() >= shared.options.connections_max {
        count(&shared.counts.rejected);
        return refuse(&socket, "ERR max number of clients reached");
    }
    // What fails here fails later as well, or does not matter.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    let local_address = socket.local_addr().ok().and_then(|address| address.as_socket());
    let local_address = local_address.map_or_else(String::new, |address| address.to_string());
    let peer = Peer::new(id, socket, address.to_string().into(), local_address.into());
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

/// A socket that listens, and what waits for it.
///
/// # Errors
/// The system's.
pub(crate) fn listen(address: SocketAddr) -> io::Result<(TcpListener, Poll)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let poll = Poll::new()?;
    let socket = listener.as_raw_fd();
    poll.registry().register(&mut SourceFd(&socket), LISTENER, Interest::READABLE)?;
    Ok((listener, poll))
}
