//! The client of memcached: many connections, each with one request at a time, and two threads that
//! serve them.
//!
//! 1. The value of a key is computed from the key, so the client knows each byte of an answer. Any
//!    other answer is a failure.
//! 2. A latency begins just before the request is written and ends just after the answer was read.
//!    An operation counts if it began within the measured time. The client waits for all operations
//!    that began.
//! 3. A thread waits by epoll for its connections, so that the client needs little CPU time and few
//!    threads.

use crate::error::reason;
use crate::interrupt;
use crate::range::request::Dice;
use platform::clock;
use platform::epoll::{EVENTS_MAX, Epoll, Interest};
use report::Histogram;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The number of records.
const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 100;
/// The share of requests that get a value; the others set one.
const GETS: f64 = 0.9;
/// The number of the client's threads.
const THREADS: usize = 2;
/// The client gives up if an answer takes longer.
const ANSWERED: Duration = Duration::from_secs(20);

/// The results of a run.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) latencies: Histogram,
    /// The number of operations of each connection
    pub(super) operations: Vec<u64>,
}

/// A connection and its current request.
struct Connection {
    stream: UnixStream,
    request: Vec<u8>,
    expected: Vec<u8>,
    /// The number of bytes of the answer that have arrived
    come: usize,
    begin_ns: u64,
    operations: u64,
}

/// Asks the server for its version.
pub(super) fn ask(socket: &Path) -> Result<(), String> {
    let mut stream = connect(socket)?;
    stream.write_all(b"version\r\n").map_err(broken)?;
    const ANSWER: &[u8] = b"VERSION ";
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).map_err(broken)?;
    if answer == ANSWER { Ok(()) } else { Err(format!("it answers '{}'", answer.escape_ascii())) }
}

/// Sets every key.
pub(super) fn fill(socket: &Path) -> Result<(), String> {
    let mut connection = Connection::new(socket)?;
    (0..KEYS).try_for_each(|key| {
        connection.send(key, false)?;
        while !connection.read()? {}
        Ok(())
    })
}

/// Warms the server up for a fifth of `seconds`, and then measures for `seconds`.
pub(super) fn drive(socket: &Path, clients: usize, seconds: u32, round: u64) -> Result<Driven, String> {
    let connections = (0..clients).map(|_| Connection::new(socket)).collect::<Result<Vec<_>, _>>()?;
    let mut shares: Vec<Vec<Connection>> = (0..THREADS.min(clients)).map(|_| Vec::new()).collect();
    let threads = shares.len();
    connections.into_iter().enumerate().for_each(|(at, one)| shares[at % threads].push(one));
    let time_ns = u64::from(seconds) * clock::SECOND_NS;
    let from = clock::now_ns() + time_ns / 5;
    std::thread::scope(|scope| {
        let serve = |(at, mut share): (usize, Vec<Connection>)| {
            let dice = Dice::of(round * THREADS as u64 + at as u64);
            scope.spawn(move || {
                let latencies = serve(&mut share, (from, from + time_ns), dice)?;
                Ok((latencies, share.iter().map(|one| one.operations).collect::<Vec<_>>()))
            })
        };
        let threads: Vec<_> = shares.into_iter().enumerate().map(serve).collect();
        let mut driven = Driven { latencies: Histogram::new(), operations: Vec::new() };
        for thread in threads {
            let (latencies, operations) =
                thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))?;
            driven.latencies.merge(&latencies);
            driven.operations.extend(operations);
        }
        Ok(driven)
    })
}

/// Serves the connections of one thread, from the first request to the last answer.
fn serve(share: &mut [Connection], (from, to): (u64, u64), mut dice: Dice) -> Result<Histogram, String> {
    let epoll = Epoll::new().map_err(number)?;
    for (at, one) in share.iter_mut().enumerate() {
        epoll.add(one.stream.as_raw_fd(), at as u64, Interest::Reading).map_err(number)?;
        one.draw(&mut dice)?;
    }
    let (mut latencies, mut open) = (Histogram::new(), share.len());
    let mut ready = Vec::with_capacity(open);
    while open > 0 {
        ready.clear();
        epoll.wait(ANSWERED.as_millis() as i32, EVENTS_MAX, |event| ready.push(event.number as usize));
        if interrupt::requested() {
            return Err("interrupted".into());
        }
        if ready.is_empty() && clock::now_ns() > to + ANSWERED.as_nanos() as u64 {
            return Err(format!("{open} requests have no answer"));
        }
        for &at in &ready {
            let one = &mut share[at];
            if !one.read()? {
                continue;
            }
            let now = clock::now_ns();
            if (from..to).contains(&one.begin_ns) {
                latencies.record(now - one.begin_ns);
                one.operations += 1;
            }
            if now < to { one.draw(&mut dice)? } else { open -= 1 }
        }
    }
    Ok(latencies)
}

impl Connection {
    fn new(socket: &Path) -> Result<Connection, String> {
        let (request, expected) = (Vec::with_capacity(256), Vec::with_capacity(256));
        Ok(Connection { stream: connect(socket)?, request, expected, come: 0, begin_ns: 0, operations: 0 })
    }

    /// Sends the next request.
    fn draw(&mut self, dice: &mut Dice) -> Result<(), String> {
        self.send(dice.below(KEYS), dice.unit() < GETS)
    }

    fn send(&mut self, key: usize, get: bool) -> Result<(), String> {
        self.request.clear();
        self.expected.clear();
        let key = format!("key{key:08}");
        let value = key.bytes().cycle().take(VALUE_BYTES);
        // Writing to memory does not fail.
        if get {
            let _ = write!(self.request, "get {key}\r\n");
            let _ = write!(self.expected, "VALUE {key} 0 {VALUE_BYTES}\r\n");
            self.expected.extend(value);
            self.expected.extend(b"\r\nEND\r\n");
        } else {
            let _ = write!(self.request, "set {key} 0 0 {VALUE_BYTES}\r\n");
            self.request.extend(value);
            self.request.extend(b"\r\n");
            self.expected.extend(b"STORED\r\n");
        }
        self.come = 0;
        self.begin_ns = clock::now_ns();
        self.stream.write_all(&self.request).map_err(broken)
    }

    /// Reads the bytes that have arrived; true once the answer is complete.
    fn read(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 256];
        let read = self.stream.read(&mut bytes).map_err(broken)?;
        let (come, left) = (&bytes[..read], &self.expected[self.come..]);
        if come.is_empty() || !left.starts_with(come) {
            let request = self.request.escape_ascii();
            return Err(format!("'{}' in the answer to '{request}'", come.escape_ascii()));
        }
        self.come += read;
        Ok(self.come == self.expected.len())
    }
}

fn connect(socket: &Path) -> Result<UnixStream, String> {
    let stream = UnixStream::connect(socket).map_err(broken)?;
    stream.set_read_timeout(Some(ANSWERED)).map_err(broken)?;
    Ok(stream)
}

fn broken(error: io::Error) -> String {
    reason(&error)
}

fn number(error: i32) -> String {
    reason(&io::Error::from_raw_os_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufRead;
    use std::os::unix::net::UnixListener;

    /// Answers as memcached does, except that request number `wrong`, counted over all connections,
    /// gets a wrong answer.
    fn server(socket: &Path, wrong: usize) {
        let listener = UnixListener::bind(socket).unwrap();
        let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let count = count.clone();
                std::thread::spawn(move || {
                    let mut lines = std::io::BufReader::new(stream.try_clone().unwrap());
                    let (mut line, mut stream) = (String::new(), stream);
                    while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                        let words: Vec<&str> = line.split_whitespace().collect();
                        let mut value = [0; VALUE_BYTES + 2];
                        let answer = match words[..] {
                            _ if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == wrong => {
                                "SERVER_ERROR out of memory\r\n".to_owned()
                            }
                            ["get", key] => {
                                let value: String = key.chars().cycle().take(VALUE_BYTES).collect();
                                format!("VALUE {key} 0 {VALUE_BYTES}\r\n{value}\r\nEND\r\n")
                            }
                            ["set", ..] => {
                                lines.read_exact(&mut value).unwrap();
                                "STORED\r\n".into()
                            }
                            _ => "VERSION 1.6.18\r\n".into(),
                        };
                        line.clear();
                        // In two parts, as any stream may come.
                        let (first, second) = answer.as_bytes().split_at(5);
                        if [first, second].iter().any(|part| stream.write_all(part).is_err()) {
                            break;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn every_connection_is_served_and_every_answer_checked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        assert!(ask(&socket).is_err());
        server(&socket, usize::MAX);
        ask(&socket).unwrap();
        fill(&socket).unwrap();
        let driven = drive(&socket, 3, 1, 0).unwrap();
        assert_eq!(driven.operations.len(), 3);
        assert!(driven.operations.iter().all(|&count| count > 0), "{:?}", driven.operations);
        assert_eq!(driven.operations.iter().sum::<u64>(), driven.latencies.count());
    }

    #[test]
    fn another_answer_than_the_right_one_ends_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        server(&socket, 200);
        let told = drive(&socket, 2, 1, 0).unwrap_err();
        assert!(told.starts_with("'SERVE") && told.contains("' in the answer to '"), "{told}");
    }
}
