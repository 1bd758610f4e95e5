//! A small HTTP server: `GET` and `HEAD` of `/metrics` and `/healthz`, over TCP or a Unix socket.
//!
//! Each connection has a thread, one request and [`TIME_MAX`]. There are at most
//! [`CONNECTIONS_MAX`] of them; others get 503 at once, so slow clients cost neither memory nor
//! threads without bound. What is answered is asked of the caller for each request.
//!
//! No small crate has these bounds. `tiny_http` 0.12 (2022) has no timeouts. `oxhttp` 0.3 and
//! `touche` 0.0.15 limit the time of each read but not of a request, so a client that sends a byte
//! at a time keeps its thread; connections beyond their maximum wait instead of being refused.
//! `hyper` needs an asynchronous runtime. So the crate `httparse` reads requests, and the loops
//! here are our own.

use crate::request::{Answer, Request, read};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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

/// A connection whose reads and writes all end before a deadline.
struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
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
    pub fn serve(self, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> io::Result<()> {
        // This thread has one reference, and each connection another one.
        let answer = Arc::new(answer);
        spawn("accept", move || {
            loop {
                match self.accept() {
                    Ok(stream) if Arc::strong_count(&answer) > CONNECTIONS_MAX => refuse(stream),
                    Ok(stream) => {
                        let answer = Arc::clone(&answer);
                        // A client that has gone needs no answer. Without a thread the
                        // connection is closed.
                        let _ = spawn("connection", move || drop(converse(stream, &*answer)));
                    }
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        })
    }

    /// The next connection. A connection over a Unix socket is a `TcpStream` too, because both
    /// read, write, time out and shut down by the same system calls.
    fn accept(&self) -> io::Result<TcpStream> {
        match self {
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| stream),
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| OwnedFd::from(stream).into()),
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(run).map(drop)
}

/// Whether a socket stands there that no process listens at.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn refuse(mut stream: TcpStream) {
    let answer = Answer::line("503 Service Unavailable", "too many connections");
    // A client that does not take it at once gets nothing.
    let _ = stream.set_write_timeout(Some(Duration::from_millis(10)));
    let _ = stream.write(&answer.bytes(false));
}

fn converse(stream: TcpStream, answer: &dyn Fn(&Request) -> Answer) -> io::Result<()> {
    let mut timed = Timed { stream, deadline: Instant::now() + TIME_MAX };
    let bytes = match read(&mut timed) {
        Ok(request) => answer(&request).bytes(request.is_head),
        Err(status) => Answer::line(status, status).bytes(false),
    };
    timed.deadline = Instant::now() + TIME_MAX;
    timed.write_all(&bytes)?;
    timed.stream.shutdown(Shutdown::Write)?;
    // What the client sent beyond its request is read, because closing a socket with unread bytes
    // would discard the answer.
    let (mut room, mut left) = ([0; 1024], 64);
    while left > 0 && timed.read(&mut room)? > 0 {
        left -= 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_goes_on_sending_is_late_all_the_same() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        let mut timed = Timed { stream: OwnedFd::from(server).into(), deadline: Instant::now() };
        assert_eq!(read(&mut timed), Err("408 Request Timeout"));
    }
}
