//! A network that a test disturbs: connections of the loopback that go through a proxy.
//!
//! While a direction is held, or the way is cut, the proxy keeps what it gets. No connection ends
//! by that and nothing is refused, as in a network that drops packets: the ends wait until the way
//! is mended, or give up. A reset ends the connections, and what was kept is lost.
//!
//! Threads of a proxy end with its connections, or with the proxy.

use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How often a proxy looks whether a way is mended, or it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The head of a request is shorter.
const HEAD_BYTES: usize = 16 << 10;

/// Whether the way from the member with this port is cut.
pub(crate) type IsCut = Box<dyn Fn(u16) -> bool + Send + Sync>;

/// What passes in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Answers,
}

/// A way to a port of the loopback.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: u16,
    /// Whether requests, and answers, are held.
    held: [AtomicBool; 2],
    /// How many messages, or parts of some, were held since the last hold.
    count: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
    has_ended: AtomicBool,
    /// Other members are the clients, which say in their requests which ones they are.
    peers: Option<IsCut>,
}

impl Proxy {
    /// A way to this endpoint, `127.0.0.1:PORT`.
    ///
    /// # Panics
    /// If it is no such endpoint, or there is no free port.
    pub fn to(endpoint: &str) -> Proxy {
        let (_, port) = endpoint.rsplit_once(':').expect("a port");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Proxy::serve(listener, port.parse().expect("a port"), None)
    }

    /// A way to the port of a member of etcd for other members.
    pub(crate) fn of_peer(listener: TcpListener, target: u16, is_cut: IsCut) -> Proxy {
        Proxy::serve(listener, target, Some(is_cut))
    }

    fn serve(listener: TcpListener, target: u16, peers: Option<IsCut>) -> Proxy {
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            target,
            held: Default::default(),
            count: AtomicUsize::new(0),
            connections: Mutex::default(),
            has_ended: AtomicBool::new(false),
            peers,
        });
        let its = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if its.has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let its = Arc::clone(&its);
                thread::spawn(move || its.join(client));
            }
        });
        Proxy { port, shared }
    }

    /// Where clients reach it.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Holds what passes in this direction from now on, and passes on the rest.
    pub fn hold(&self, direction: Direction) {
        self.shared.count.store(0, Ordering::SeqCst);
        self.shared.held[direction as usize].store(true, Ordering::SeqCst);
    }

    /// How many messages, or parts of some, were held since then.
    pub fn held(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// Cuts the way: both directions are held.
    pub fn cut(&self) {
        self.hold(Direction::Requests);
        self.hold(Direction::Answers);
    }

    /// Mends the way: everything passes again.
    pub fn mend(&self) {
        self.shared.held.iter().for_each(|held| held.store(false, Ordering::SeqCst));
    }

    /// Ends all connections; what is held is lost.
    pub fn reset(&self) {
        for connection in self.shared.connections().drain(..) {
            // The other end may be quicker.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.reset();
        // The thread that listens looks at the flag then.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a client and the server; an error ends both.
    fn join(self: Arc<Shared>, mut client: TcpStream) -> Option<()> {
        let mut head = Vec::new();
        let mut bytes = [0; 4096];
        while self.peers.is_some()
            && head.len() < HEAD_BYTES
            && !head.windows(4).any(|end| end == b"\r\n\r\n")
        {
            match client.read(&mut bytes).ok()? {
                0 => return None,
                read => head.extend_from_slice(&bytes[..read]),
            }
        }
        let source = source(&head);
        self.pass(Direction::Requests, source)?;
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target)).ok()?;
        for stream in [&client, &server] {
            stream.set_nodelay(true).ok()?;
            self.connections().push(stream.try_clone().ok()?);
        }
        server.write_all(&head).ok()?;
        let (to, from, its) = (client.try_clone().ok()?, server.try_clone().ok()?, Arc::clone(&self));
        thread::spawn(move || its.pump(Direction::Answers, source, from, to));
        self.pump(Direction::Requests, source, client, server);
        Some(())
    }

    fn pump(&self, direction: Direction, source: Option<u16>, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if self.pass(direction, source).is_none() || to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// Waits while the direction is held; `None` when the proxy has ended.
    fn pass(&self, direction: Direction, source: Option<u16>) -> Option<()> {
        let is_held = || {
            let is_cut = self.peers.as_ref().zip(source).is_some_and(|(is_cut, source)| is_cut(source));
            is_cut || self.held[direction as usize].load(Ordering::SeqCst)
        };
        if is_held() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        while is_held() {
            if self.has_ended.load(Ordering::SeqCst) {
                return None;
            }
            thread::sleep(LOOK_EVERY);
        }
        Some(())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Shared")
            .field("target", &self.target)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

/// The port that the other members know a member by, which it says in its requests.
fn source(head: &[u8]) -> Option<u16> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, urls) = head.split_once("\r\nx-peerurls:")?;
    let url = urls.lines().next()?.split(',').next()?.trim().trim_end_matches('/').to_owned();
    url.rsplit_once(':')?.1.parse().ok()
}
