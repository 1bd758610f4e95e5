//! memcached, loaded by a client of our own over its text protocol.
//!
//! | in the folder | what it is |
//! | --- | --- |
//! | `s` | its socket |
//!
//! All records fit into its memory, so a get always finds its value.

use super::driver::{self, Driver, Load, find, slowest_of_mean, words};
use crate::closed_loop::{self, ANSWERED, Connection, Exchange, broken};
use crate::error::Error;
use crate::harness::Sample;
use crate::interrupt;
use crate::range::request::dice;
use platform::clock;
use report::Histogram;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Memcached {
    server: PathBuf,
    load: Load,
}

impl Memcached {
    /// # Errors
    /// [`Error::Missing`] if it is not installed.
    pub(super) fn find(load: Load) -> Result<Memcached, Error> {
        Ok(Memcached { server: find("memcached", "memcached")?, load })
    }
}

fn failed(why: String) -> Error {
    if interrupt::requested() {
        return Error::Interrupted;
    }
    Error::failed(format!("the client of memcached: {why}"))
}

impl Driver for Memcached {
    fn command(&self, home: &Path) -> (&Path, Vec<OsString>) {
        let mut arguments = words(["-m", "64", "-t", &self.load.threads.to_string(), "-s"]);
        arguments.push(home.join("s").into());
        (&self.server, arguments)
    }

    fn ask(&self, home: &Path) -> Result<(), String> {
        ask(&home.join("s"))
    }

    fn fill(&self, home: &Path) -> Result<(), Error> {
        fill(&home.join("s")).map_err(failed)
    }

    fn load(&self, home: &Path, round: usize) -> Result<Sample, Error> {
        let driven = drive(&home.join("s"), self.load.clients, self.load.seconds, round as u64);
        let driven = driven.map_err(failed)?;
        let throughput = driven.latencies.count() as f64 / f64::from(self.load.seconds);
        let mut sample = driver::sample(&driven.latencies, throughput).map_err(failed)?;
        sample.values.insert("slowest_of_mean".into(), slowest_of_mean(&driven.operations));
        Ok(sample)
    }

    fn is_alarm(&self, line: &str) -> bool {
        // memcached writes errors only.
        !line.trim().is_empty()
    }
}

// The client of memcached: many connections, each with one request at a time, and two threads that
// serve them.
//
// 1. The value of a key is computed from the key, so the client knows each byte of an answer, as
//    `closed_loop.rs` demands.
// 2. An operation counts if it began within the measured time. The client waits for all operations
//    that began.

/// The number of records.
const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 100;
/// The share of requests that get a value; the others set one.
const GETS: f64 = 0.9;
/// The number of the client's threads.
const THREADS: usize = 2;

/// The results of a run.
#[derive(Debug)]
struct Driven {
    latencies: Histogram,
    /// The number of operations of each connection
    operations: Vec<u64>,
}

/// Asks the server for its version.
fn ask(socket: &Path) -> Result<(), String> {
    let mut stream = connect(socket)?;
    stream.write_all(b"version\r\n").map_err(broken)?;
    const ANSWER: &[u8] = b"VERSION ";
    let mut answer = [0; ANSWER.len()];
    stream.read_exact(&mut answer).map_err(broken)?;
    if answer == ANSWER { Ok(()) } else { Err(format!("it answers '{}'", answer.escape_ascii())) }
}

/// Sets every key.
fn fill(socket: &Path) -> Result<(), String> {
    let mut connection = Connection::new(connect(socket)?);
    (0..KEYS).try_for_each(|key| connection.ask(|exchange| write(exchange, key, false)))
}

/// Warms the server up for a fifth of `seconds`, and then measures for `seconds`.
fn drive(socket: &Path, clients: usize, seconds: u32, round: u64) -> Result<Driven, String> {
    let connect = |_| connect(socket).map(Connection::new);
    let connections = (0..clients).map(connect).collect::<Result<Vec<_>, _>>()?;
    let mut shares: Vec<Vec<Connection<UnixStream>>> =
        (0..THREADS.min(clients)).map(|_| Vec::new()).collect();
    let threads = shares.len();
    connections.into_iter().enumerate().for_each(|(at, one)| shares[at % threads].push(one));
    let time_ns = u64::from(seconds) * clock::SECOND_NS;
    let from = clock::now_ns() + time_ns / 5;
    std::thread::scope(|scope| {
        let serve = |(at, mut share): (usize, Vec<Connection<UnixStream>>)| {
            let dice = dice(round * THREADS as u64 + at as u64);
            scope.spawn(move || serve(&mut share, (from, from + time_ns), dice))
        };
        let threads: Vec<_> = shares.into_iter().enumerate().map(serve).collect();
        let mut driven = Driven { latencies: Histogram::new(), operations: Vec::new() };
        for thread in threads {
            let share = thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))?;
            driven.latencies.merge(&share.latencies);
            driven.operations.extend(share.operations);
        }
        Ok(driven)
    })
}

/// Serves the connections of one thread, from the first request to the last answer.
fn serve(
    share: &mut [Connection<UnixStream>],
    (from, to): (u64, u64),
    mut dice: fastrand::Rng,
) -> Result<Driven, String> {
    let mut driven = Driven { latencies: Histogram::new(), operations: vec![0; share.len()] };
    let next = |_, exchange: &mut Exchange, now_ns| {
        let goes_on = now_ns < to;
        if goes_on {
            write(exchange, dice.usize(..KEYS), dice.f64() < GETS);
        }
        goes_on
    };
    closed_loop::serve(share, next, |answered| {
        if (from..to).contains(&answered.begin_ns) {
            driven.latencies.record(answered.end_ns - answered.begin_ns);
            driven.operations[answered.connection] += 1;
        }
    })?;
    Ok(driven)
}

/// A request and its answer.
fn write(Exchange { request, answer }: &mut Exchange, key: usize, get: bool) {
    let key = format!("key{key:08}");
    let value = key.bytes().cycle().take(VALUE_BYTES);
    // Writing to memory does not fail.
    if get {
        let _ = write!(request, "get {key}\r\n");
        let _ = write!(answer, "VALUE {key} 0 {VALUE_BYTES}\r\n");
        answer.extend(value);
        answer.extend(b"\r\nEND\r\n");
    } else {
        let _ = write!(request, "set {key} 0 0 {VALUE_BYTES}\r\n");
        request.extend(value);
        request.extend(b"\r\n");
        answer.extend(b"STORED\r\n");
    }
}

fn connect(socket: &Path) -> Result<UnixStream, String> {
    let stream = UnixStream::connect(socket).map_err(broken)?;
    stream.set_read_timeout(Some(ANSWERED)).map_err(broken)?;
    Ok(stream)
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
