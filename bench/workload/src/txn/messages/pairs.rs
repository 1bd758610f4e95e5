//! A run of the part `messages`: pairs of clients that wait for each other.
//!
//! | phase | what a client does |
//! | --- | --- |
//! | `BLPOP` | pushes a message to the other client's list, and waits at its own |
//! | `PUBLISH` | publishes a message in the other client's channel, and waits in its own |
//!
//! 1. The *first* client of a pair sends a message when it has one; the *second* one does so, too.
//!    So a pair has one message at a time, which goes there and back.
//! 2. A latency is that of the way there and back, as the first client sees it. The throughput is
//!    the number of messages, two for each way, over the time from the first to the last one.
//! 3. When the time is over the first client sends a last message, so that the second one ends.
//! 4. At the end no key is left.

use super::super::exchanges::{array, bulk, connect, count, ping, word};
use super::super::phase::{Name, Phase};
use crate::closed_loop::{self, Connection, Exchange, broken};
use platform::clock;
use report::Histogram;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};

/// The phases, and how the names of their figures begin.
pub(in crate::txn) const PHASES: [Name; 2] = [("BLPOP", "queue_"), ("PUBLISH", "publish_")];

const MESSAGE: [u8; 100] = [b'm'; 100];

/// Runs both phases, in the order of [`PHASES`], for this time each.
///
/// # Errors
/// A connection is broken, a message is wrong, or something is left; or the user interrupts.
pub(super) fn drive(port: u16, pairs: usize, seconds: f64) -> Result<[Phase; 2], String> {
    let before = count(port)?;
    let time_ns = (seconds * clock::SECOND_NS as f64) as u64;
    let mut lists: Vec<_> =
        (0..2 * pairs).map(|_| connect(port).map(Connection::new)).collect::<Result<_, _>>()?;
    lists.iter_mut().try_for_each(|one| one.ask(ping))?;
    let queue = phase(&mut lists, &Queue, time_ns)?;
    drop(lists);
    let mut channels: Vec<_> = (0..2 * pairs)
        .map(|at| Subscriber::connect(port, at).map(Connection::new))
        .collect::<Result<_, _>>()?;
    let publish = phase(&mut channels, &Publish, time_ns)?;
    let left = count(port)? - before;
    if left != 0 {
        return Err(format!("{left} lists are left"));
    }
    Ok([queue, publish])
}

/// How messages are sent. Clients are told by the places of their connections.
trait Way {
    /// Sends nothing, and waits for a message.
    fn wait(&self, own: usize, exchange: &mut Exchange);
    /// Sends a message to another client, and waits for one.
    fn send(&self, other: usize, own: usize, exchange: &mut Exchange);
    /// Sends the last message to another client, and waits for none from there.
    fn end(&self, other: usize, own: usize, exchange: &mut Exchange);
}

/// One phase, of pairs of neighbours.
fn phase<S: Read + Write + AsRawFd>(
    all: &mut [Connection<S>],
    way: &impl Way,
    time_ns: u64,
) -> Result<Phase, String> {
    /// How far a pair is.
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        /// The second client has not begun to wait.
        New,
        Going,
        /// The first client has sent its last message.
        Ended,
    }
    let mut pairs = vec![State::New; all.len() / 2];
    let (begin_ns, mut latencies) = (clock::now_ns(), Histogram::new());
    let mut end_ns = begin_ns;
    let next = |own: usize, exchange: &mut Exchange, now_ns: u64| {
        let (state, other) = (&mut pairs[own / 2], own ^ 1);
        let is_first = own.is_multiple_of(2);
        match *state {
            State::Ended => return false,
            _ if is_first && now_ns >= begin_ns + time_ns => {
                *state = State::Ended;
                way.end(other, own, exchange);
            }
            State::New if !is_first => {
                *state = State::Going;
                way.wait(own, exchange);
            }
            _ => way.send(other, own, exchange),
        }
        true
    };
    closed_loop::serve(all, next, |answered| {
        if answered.connection.is_multiple_of(2) && answered.begin_ns < begin_ns + time_ns {
            latencies.record(answered.end_ns - answered.begin_ns);
            end_ns = answered.end_ns;
        }
    })?;
    let per_s = 2.0 * latencies.count() as f64 * clock::SECOND_NS as f64 / (end_ns - begin_ns) as f64;
    Ok(Phase { latencies, per_s })
}

/// The name of a client's list or channel.
fn name(client: usize) -> String {
    format!("client:{client:06}")
}

struct Queue;

impl Queue {
    fn push(&self, other: usize, Exchange { request, answer }: &mut Exchange) {
        array(request, &[b"RPUSH", name(other).as_bytes(), &MESSAGE]);
        // There was none.
        word(answer, b':', 1);
    }
}

impl Way for Queue {
    fn wait(&self, own: usize, Exchange { request, answer }: &mut Exchange) {
        let name = name(own);
        array(request, &[b"BLPOP", name.as_bytes(), b"0"]);
        array(answer, &[name.as_bytes(), &MESSAGE]);
    }

    fn send(&self, other: usize, own: usize, exchange: &mut Exchange) {
        self.push(other, exchange);
        self.wait(own, exchange);
    }

    fn end(&self, other: usize, _: usize, exchange: &mut Exchange) {
        self.push(other, exchange);
    }
}

struct Publish;

impl Publish {
    fn publish(&self, other: usize, exchange: &mut Exchange) {
        array(&mut exchange.request, &[b"PUBLISH", name(other).as_bytes(), &MESSAGE]);
    }
}

impl Way for Publish {
    fn wait(&self, own: usize, exchange: &mut Exchange) {
        array(&mut exchange.answer, &[b"message", name(own).as_bytes(), &MESSAGE]);
    }

    fn send(&self, other: usize, own: usize, exchange: &mut Exchange) {
        self.publish(other, exchange);
        self.wait(own, exchange);
    }

    /// It gets a message of its own.
    fn end(&self, other: usize, own: usize, exchange: &mut Exchange) {
        self.publish(other, exchange);
        self.send(own, own, exchange);
    }
}

/// A client's two connections: it publishes by one, which gets no answers, and reads its channel by
/// the other.
struct Subscriber {
    publisher: TcpStream,
    channel: TcpStream,
}

impl Subscriber {
    fn connect(port: u16, at: usize) -> Result<Subscriber, String> {
        let mut publisher = connect(port)?;
        let mut silence = Vec::new();
        array(&mut silence, &[b"CLIENT", b"REPLY", b"OFF"]);
        publisher.write_all(&silence).map_err(broken)?;
        let mut channel = Connection::new(connect(port)?);
        channel.ask(|Exchange { request, answer }| {
            let name = name(at);
            array(request, &[b"SUBSCRIBE", name.as_bytes()]);
            word(answer, b'*', 3);
            [&b"subscribe"[..], name.as_bytes()].into_iter().for_each(|text| bulk(answer, text));
            word(answer, b':', 1);
        })?;
        Ok(Subscriber { publisher, channel: channel.into_stream() })
    }
}

impl Write for Subscriber {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.publisher.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.publisher.flush()
    }
}

impl Read for Subscriber {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.channel.read(into)
    }
}

impl AsRawFd for Subscriber {
    fn as_raw_fd(&self) -> RawFd {
        self.channel.as_raw_fd()
    }
}
