//! Connections: a thread for each, as mongod has them, which reads a message, does what it asks
//! for, and writes the reply.
//!
//! With a pool the threads of the connections only read and write; a worker of the pool does the
//! rest, so that no more threads are in the engine than there are CPUs.
//!
//! The end: first no connection is accepted, then all are shut down, so that each thread ends after
//! the operation that it is at; then all that was committed is made durable.

use crate::commands::{Client, Service};
use crate::engine::{Engine, FLUSH_EVERY, Failed};
use crate::wire;
use manx::pool::FriendlyPool;
use std::collections::HashMap;
use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

/// The pause after a connection could not be accepted: the process may have too many files.
const PAUSE: Duration = Duration::from_millis(100);
/// A reply that was longer does not keep its memory.
const KEPT_BYTES: usize = 1 << 20;

/// A server and its connections.
pub struct Server {
    engine: Box<dyn Engine>,
    service: Service,
    pool: Option<FriendlyPool>,
    /// The open connections by their numbers; `None`: none is to be opened any more.
    open: Mutex<Option<HashMap<i32, TcpStream>>>,
}

impl Server {
    /// Serves an engine.
    pub fn new(engine: Box<dyn Engine>, pool: Option<FriendlyPool>) -> Server {
        let service = Service::new(engine.version());
        Server { engine, service, pool, open: Mutex::new(Some(HashMap::new())) }
    }

    /// Serves until `end` returns, and all connections are closed.
    ///
    /// # Errors
    /// The last flush failed, or a thread could not be started.
    pub fn serve(&self, listener: &TcpListener, end: impl FnOnce()) -> Result<(), String> {
        let (stop, stopped) = channel();
        thread::scope(|scope| {
            named("JournalFlusher").spawn_scoped(scope, || self.flush(stopped))?;
            named("listener").spawn_scoped(scope, || self.accept(scope, listener))?;
            end();
            drop(stop);
            let open = self.open().take();
            // SAFETY: it only makes `accept` return, now and later.
            unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RD) };
            for stream in open.into_iter().flat_map(HashMap::into_values) {
                // An error: the client was faster.
                let _ = stream.shutdown(Shutdown::Both);
            }
            Ok(())
        })
        .map_err(|error: io::Error| format!("a thread: {}", command::failure::reason(&error)))?;
        self.engine.session().and_then(|mut session| session.flush()).map_err(|failed| failed.to_string())
    }

    fn open(&self) -> MutexGuard<'_, Option<HashMap<i32, TcpStream>>> {
        // A panic leaves the map whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, listener: &TcpListener) {
        for number in 1.. {
            let stream = loop {
                let accepted = listener.accept();
                if self.open().is_none() {
                    return;
                }
                match accepted {
                    Ok((stream, _)) => break stream,
                    Err(error) => {
                        eprintln!("manx: a connection was not accepted: {error}");
                        thread::sleep(PAUSE);
                    }
                }
            };
            let connect = || {
                stream.set_nodelay(true)?;
                let other = stream.try_clone()?;
                let Some(open) = &mut *self.open() else { return Ok(()) };
                open.insert(number, other);
                named(&format!("conn{number}"))
                    .spawn_scoped(scope, move || self.converse(number, stream))
                    .map(drop)
            };
            if let Err(error) = connect() {
                eprintln!("manx: connection {number}: {error}");
                self.close(number);
            }
        }
    }

    fn close(&self, number: i32) {
        if let Some(open) = &mut *self.open() {
            open.remove(&number);
        }
    }

    /// Serves one connection until it ends.
    fn converse(&self, number: i32, stream: TcpStream) {
        let served = match self.engine.session() {
            Ok(session) => self.answer_all(&mut Client { number, session }, &stream),
            Err(failed) => Err(io::Error::other(failed.to_string())),
        };
        // That a client goes away without a word is nothing to tell.
        if let Err(error) = served
            && matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::Other)
        {
            eprintln!("manx: connection {number} is closed: {error}");
        }
        self.close(number);
    }

    fn answer_all(&self, client: &mut Client, stream: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut message, mut reply) = (Vec::new(), Vec::new());
        while wire::read(&mut reader, &mut message)? {
            reply.clear();
            reply.shrink_to(KEPT_BYTES);
            let mut is_known = false;
            self.work(|| is_known = self.service.answer(client, &message, &mut reply));
            if !is_known {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an unknown kind of message"));
            }
            let mut writer = stream;
            writer.write_all(&reply)?;
        }
        Ok(())
    }

    /// Runs it in this thread, or in the pool.
    fn work(&self, job: impl FnOnce() + Send) {
        match &self.pool {
            None => job(),
            Some(pool) => pool.scope(|scope| scope.spawn(job)),
        }
    }

    /// Flushes the journal now and then.
    fn flush(&self, stopped: Receiver<()>) {
        let mut session = match self.engine.session() {
            Ok(session) => session,
            Err(failed) => return tell(&failed),
        };
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(FLUSH_EVERY) {
            if let Err(failed) = session.flush() {
                return tell(&failed);
            }
        }
    }
}

fn tell(failed: &Failed) {
    eprintln!("manx: the journal is not flushed any more: {failed}");
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.into())
}
