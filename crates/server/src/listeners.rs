//! Where clients connect: an address of the network, and perhaps a file.

use crate::acl::User;
use crate::options::Options;
use crate::peer::Peer;
use crate::unix_socket::UnixSocket;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Socket, TcpKeepalive};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

/// A client that is silent for this time gets TCP keepalive probes, as from Redis.
const KEEPALIVE: Duration = Duration::from_secs(300);
/// The token of all events: after each, all sockets are asked.
const ANY: Token = Token(0);

/// The sockets that listen, and what waits for them.
pub(crate) struct Listeners {
    network: TcpListener,
    unix: Option<UnixSocket>,
    poll: Poll,
    events: Events,
    next_id: u64,
}

/// Where a server cannot listen, and why.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) place: String,
    pub(crate) error: io::Error,
}

impl Refused {
    fn at(place: impl fmt::Display) -> impl FnOnce(io::Error) -> Refused {
        let place = place.to_string();
        |error| Refused { place, error }
    }
}

impl Listeners {
    /// Listens where these options say; returns the address as well, with its port.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn new(options: &Options) -> Result<(Listeners, SocketAddr), Refused> {
        let refused = || Refused::at(options.listen);
        let network = TcpListener::bind(options.listen).map_err(refused())?;
        network.set_nonblocking(true).map_err(refused())?;
        let address = network.local_addr().map_err(refused())?;
        let unix = match &options.unix_socket {
            None => None,
            Some(path) => {
                let listening = UnixSocket::listen(path, options.unix_socket_permissions);
                Some(listening.map_err(Refused::at(path.display()))?)
            }
        };
        let poll = Poll::new().map_err(refused())?;
        let sockets = unix.iter().map(|unix| unix.socket.as_raw_fd()).chain([network.as_raw_fd()]);
        for socket in sockets {
            let added = poll.registry().register(&mut SourceFd(&socket), ANY, Interest::READABLE);
            added.map_err(refused())?;
        }
        Ok((Listeners { network, unix, poll, events: Events::with_capacity(4), next_id: 1 }, address))
    }

    /// What ends [`Listeners::wait`].
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), ANY)
    }

    /// Waits until a client may be there, or the waker is used.
    ///
    /// # Errors
    /// The system's: there is no more waiting.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        match self.poll.poll(&mut self.events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// The next client, if one is there; it begins as this user.
    ///
    /// # Errors
    /// The system's. `WouldBlock`: none is there.
    pub(crate) fn accept(&mut self, user: &Arc<User>) -> io::Result<Peer> {
        let (socket, address, local_address) = match self.network.accept() {
            Ok((socket, address)) => {
                let local_address = socket.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
                (Socket::from(socket), address.to_string(), local_address)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let unix = self.unix.as_ref().ok_or(error)?;
                let (socket, _) = unix.socket.accept()?;
                // As in Redis.
                let place = format!("{}:0", unix.path.display());
                return Ok(self.peer(socket, (place.clone(), place), true, user));
            }
            Err(error) => return Err(error),
        };
        // What fails here fails later as well, or does not matter.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        Ok(self.peer(socket, (address, local_address), false, user))
    }

    fn peer(
        &mut self,
        socket: Socket,
        (address, local_address): (String, String),
        is_unix: bool,
        user: &Arc<User>,
    ) -> Peer {
        let id = self.next_id;
        self.next_id += 1;
        Peer::new(id, socket, (address.into(), local_address.into()), is_unix, Arc::clone(user))
    }
}
