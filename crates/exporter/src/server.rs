//! A small HTTP server: `GET` and `HEAD` of `/metrics` and `/healthz`, over TCP or a Unix socket.
//!
//! Each connection has a thread, one request and [`TIME_MAX`]. There are at most
//! [`CONNECTIONS_MAX`] of them; others get 503 at once, so slow clients cost neither memory nor
//! threads without bound. What is answered is asked of the caller for each request.

use crate::request::{Answer, Request, read};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The most connections at once.
pub const CONNECTIONS_MAX: usize = 16;
/// How long a connection may take for its request, and again for its answer.
pub const TIME_MAX: Duration = Duration::from_secs(5);
/// How long the server pauses when the system has no descriptor for a new connection.
const PAUSE: Duration = Duration::from_millis(50);
/// The stack of a connection's thread.
const STACK_BYTES: usize = 256 << 10;

/// A stream of bytes with a limit on the time of each call.
trait Stream: Read + Write + Send + 'static {
    fn limit(&self, time: Duration) -> io::Result<()>;
    fn end(&self);
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

/// A stream whose calls all end before a deadline.
struct Timed<S> {
    stream: S,
    deadline: Instant,
}

impl<S: Stream> Timed<S> {
    fn before_call(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { self.stream.limit(left) }
    }
}

impl<S: Stream> Read for Timed<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.before_call()?;
        self.stream.read(into)
    }
}

impl<S: Stream> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.before_call()?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(SocketAddr),
    /// A socket's path.
    Unix(PathBuf),
}

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// A Unix socket, which is removed at the end.
    Unix(UnixListener, PathBuf),
}

/// What answers a request.
pub type Answers = dyn Fn(&Request) -> Answer + Send + Sync;

impl Listener {
    /// Listens. A Unix socket that no process listens at is replaced.
    ///
    /// # Errors
    /// The system's; `AddrInUse` if another process listens there, or a file of another kind stands
    /// at the path.
    pub fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp),
            Address::Unix(path) => {
                if is_abandoned(path) {
                    std::fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(|listener| Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|_| "?".into(), |address| format!("http://{address}/metrics")),
            Listener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Serves requests from a thread of its own, as long as the process lives.
    ///
    /// # Errors
    /// The system's, if there is no thread.
    pub fn serve(self, answers: Arc<Answers>) -> io::Result<()> {
        let busy = Arc::new(AtomicUsize::new(0));
        let accept = move || {
            loop {
                let accepted = match &self {
                    Listener::Tcp(listener) => {
                        listener.accept().map(|(stream, _)| admit(stream, &busy, &answers))
                    }
                    Listener::Unix(listener, _) => {
                        listener.accept().map(|(stream, _)| admit(stream, &busy, &answers))
                    }
                };
                if accepted.is_err() {
                    thread::sleep(PAUSE);
                }
            }
        };
        thread::Builder::new().name("accept".into()).stack_size(STACK_BYTES).spawn(accept).map(drop)
    }
}

/// Whether a socket stands there that no process listens at.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A place among the connections, which is free again when this is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(busy: &Arc<AtomicUsize>) -> Option<Place> {
        // Relaxed: a number that bounds, and orders nothing.
        let place = Place(Arc::clone(busy));
        (busy.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn admit<S: Stream>(mut stream: S, busy: &Arc<AtomicUsize>, answers: &Arc<Answers>) {
    let refuse = |stream: &mut S| {
        let answer = Answer::line("503 Service Unavailable", "too many connections");
        // A client that does not take it at once gets nothing.
        let _ = stream.limit(Duration::from_millis(10));
        let _ = stream.write(&answer.bytes(false));
    };
    let Some(place) = Place::take(busy) else { return refuse(&mut stream) };
    let answers = Arc::clone(answers);
    let serve = move || {
        let _place = place;
        // A client that has gone needs no answer.
        let _ = converse(stream, &*answers);
    };
    // Without a thread the connection is closed.
    let _ = thread::Builder::new().name("connection".into()).stack_size(STACK_BYTES).spawn(serve);
}

fn converse<S: Stream>(stream: S, answers: &Answers) -> io::Result<()> {
    let mut timed = Timed { stream, deadline: Instant::now() + TIME_MAX };
    let request = read(&mut timed);
    let bytes = match &request {
        Ok(request) => answers(request).bytes(request.is_head),
        Err(refusal) => Answer::refusal(*refusal).bytes(false),
    };
    timed.deadline = Instant::now() + TIME_MAX;
    timed.write_all(&bytes)?;
    timed.stream.end();
    // What the client sent beyond its request is read, because closing a socket with unread bytes
    // would discard the answer.
    let (mut room, mut left) = ([0; 1024], 64);
    while left > 0 && timed.read(&mut room)? > 0 {
        left -= 1;
    }
    Ok(())
}
