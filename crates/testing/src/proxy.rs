//! A network that can be cut: connections of the loopback that go through a proxy.
//!
//! While a way is cut, the proxy holds what it gets. No connection ends by that and nothing is
//! refused, as in a network that drops packets: the ends wait until the way is mended, or give up.
//!
//! Threads of a proxy end with its connections, or with the proxy.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often a proxy looks whether a way is mended, or it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The head of a request is shorter.
const HEAD_BYTES: usize = 16 << 10;

/// Whether the way from the member with this port (none: it is not known) is cut.
pub(crate) type IsCut = Arc<dyn Fn(Option<u16>) -> bool + Send + Sync>;

/// A way to a port of the loopback.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    is_cut: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl Proxy {
    /// A way to this endpoint, `127.0.0.1:PORT`.
    ///
    /// # Panics
    /// If it is no such endpoint, or there is no free port.
    pub fn to(endpoint: &str) -> Proxy {
        let (_, port) = endpoint.rsplit_once(':').expect("a port");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let cut = Arc::new(AtomicBool::new(false));
        let way = Arc::clone(&cut);
        let is_cut: IsCut = Arc::new(move |_| way.load(Ordering::SeqCst));
        Proxy::serve(listener, port.parse().expect("a port"), cut, is_cut, false)
    }

    /// A way to the port of a member of etcd for other members, which say in their requests which
    /// ones they are.
    pub(crate) fn of_peer(listener: TcpListener, target: u16, is_cut: IsCut) -> Proxy {
        Proxy::serve(listener, target, Arc::default(), is_cut, true)
    }

    fn serve(
        listener: TcpListener,
        target: u16,
        cut: Arc<AtomicBool>,
        is_cut: IsCut,
        asks_source: bool,
    ) -> Proxy {
        let port = listener.local_addr().expect("it is bound").port();
        let has_ended = Arc::new(AtomicBool::new(false));
        let proxy = Proxy { port, is_cut: cut, has_ended: Arc::clone(&has_ended) };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if has_ended.load(Ordering::SeqCst) {
                    return;
                }
                let way =
                    Way { is_cut: Arc::clone(&is_cut), has_ended: Arc::clone(&has_ended), source: None };
                thread::spawn(move || way.join(stream, target, asks_source));
            }
        });
        proxy
    }

    /// Where clients reach it.
    pub fn endpoint(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Cuts the way.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Mends the way.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        // Its thread looks.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// A connection's way.
#[derive(Clone)]
struct Way {
    is_cut: IsCut,
    has_ended: Arc<AtomicBool>,
    source: Option<u16>,
}

impl Way {
    /// Joins two ends; an error ends both.
    fn join(mut self, mut client: TcpStream, target: u16, asks_source: bool) -> Option<()> {
        let mut head = Vec::new();
        let mut bytes = [0; 4096];
        while asks_source && head.len() < HEAD_BYTES && !head.windows(4).any(|end| end == b"\r\n\r\n") {
            match client.read(&mut bytes).ok()? {
                0 => return None,
                read => head.extend_from_slice(&bytes[..read]),
            }
        }
        self.source = source(&head);
        self.pass()?;
        let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).ok()?;
        for stream in [&client, &server] {
            stream.set_nodelay(true).ok()?;
        }
        server.write_all(&head).ok()?;
        let (to, from, way) = (client.try_clone().ok()?, server.try_clone().ok()?, self.clone());
        thread::spawn(move || way.pump(from, to));
        self.pump(client, server);
        Some(())
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if self.pass().is_none() || to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// Waits while the way is cut; `None` when the proxy has ended.
    fn pass(&self) -> Option<()> {
        while (self.is_cut)(self.source) {
            if self.has_ended.load(Ordering::SeqCst) {
                return None;
            }
            thread::sleep(LOOK_EVERY);
        }
        Some(())
    }
}

/// The port that the other members know a member by, which it says in its requests.
fn source(head: &[u8]) -> Option<u16> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let (_, urls) = head.split_once("\r\nx-peerurls:")?;
    let url = urls.lines().next()?.split(',').next()?.trim().trim_end_matches('/').to_owned();
    url.rsplit_once(':')?.1.parse().ok()
}
