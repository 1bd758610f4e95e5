//! Clients in a closed loop, all of one thread: each connection has one request at a time, and
//! sends the next one when it has the answer.
//!
//! 1. The answer is known before the request is sent, to the last byte. Any other answer is a
//!    failure, so an error of the server is never counted as an answer.
//! 2. A latency begins just before the request is written and ends just after the last byte of the
//!    answer was read.
//! 3. The thread waits by epoll for its connections. So a request takes a write, a read and a part
//!    of a wait, and the client needs little CPU time of its own.
//! 4. The loop ends when each request that was sent has its answer, however late.

use crate::error::reason;
use crate::interrupt;
use platform::clock;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::time::Duration;

/// The client gives up if no answer comes for this time.
pub(crate) const ANSWERED: Duration = Duration::from_secs(20);

/// A request, and the answer that it must have.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) answer: Vec<u8>,
}

/// A connection and its current request. A read from the stream returns what there is.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: S,
    current: Exchange,
    /// The number of bytes of the answer that have arrived
    come: usize,
    begin_ns: u64,
}

/// A request that has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The place of its connection
    pub(crate) connection: usize,
    /// Just before it was written
    pub(crate) begin_ns: u64,
    /// Just after the answer was read
    pub(crate) end_ns: u64,
}

impl<S: Read + Write> Connection<S> {
    pub(crate) fn new(stream: S) -> Connection<S> {
        Connection { stream, current: Exchange::default(), come: 0, begin_ns: 0 }
    }

    /// Sends one request, which `next` writes, and waits for the answer.
    ///
    /// # Errors
    /// The connection is broken, or another answer comes.
    pub(crate) fn ask(&mut self, next: impl FnOnce(&mut Exchange)) -> Result<(), String> {
        next(self.cleared());
        self.send()?;
        while !self.read()? {}
        Ok(())
    }

    fn cleared(&mut self) -> &mut Exchange {
        self.current.request.clear();
        self.current.answer.clear();
        &mut self.current
    }

    fn send(&mut self) -> Result<(), String> {
        self.come = 0;
        self.begin_ns = clock::now_ns();
        self.stream.write_all(&self.current.request).map_err(broken)
    }

    /// Reads the bytes that have arrived; true once the answer is complete.
    fn read(&mut self) -> Result<bool, String> {
        let mut bytes = [0; 256];
        let read = self.stream.read(&mut bytes).map_err(broken)?;
        let (come, left) = (&bytes[..read], &self.current.answer[self.come..]);
        if come.is_empty() || !left.starts_with(come) {
            let request = self.current.request.escape_ascii();
            return Err(match read {
                0 => format!("the connection ends before the answer to '{request}'"),
                _ => format!("'{}' in the answer to '{request}'", come.escape_ascii()),
            });
        }
        self.come += read;
        Ok(self.come == self.current.answer.len())
    }
}

/// Serves the connections: `next` writes the next request of the connection of this place, is told
/// the time, and returns false if there is none; `answered` is told of each answer.
///
/// # Errors
/// A connection is broken, another answer comes, or none; or the user interrupts.
pub(crate) fn serve<S: Read + Write + AsRawFd>(
    connections: &mut [Connection<S>],
    mut next: impl FnMut(usize, &mut Exchange, u64) -> bool,
    mut answered: impl FnMut(Answered),
) -> Result<(), String> {
    // SAFETY: it makes a descriptor, which is ours from here on.
    let epoll = match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
        -1 => return Err(broken(io::Error::last_os_error())),
        // SAFETY: as above.
        descriptor => unsafe { OwnedFd::from_raw_fd(descriptor) },
    };
    let mut events =
        vec![libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 }; connections.len().max(1)];
    let mut open = 0;
    for (at, one) in connections.iter_mut().enumerate() {
        events[0].u64 = at as u64;
        let (set, stream) = (epoll.as_raw_fd(), one.stream.as_raw_fd());
        // SAFETY: the kernel reads the event.
        if unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, stream, &mut events[0]) } != 0 {
            return Err(broken(io::Error::last_os_error()));
        }
        if next(at, one.cleared(), clock::now_ns()) {
            one.send()?;
            open += 1;
        }
    }
    let (room, limit_ms) = (events.len() as i32, ANSWERED.as_millis() as i32);
    let mut last_ns = clock::now_ns();
    while open > 0 {
        // SAFETY: the kernel writes at most as many events as there is room for.
        let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, limit_ms) };
        // A signal interrupts the wait: there is no event then.
        let ready = &events[..count.max(0) as usize];
        if interrupt::requested() {
            return Err("interrupted".into());
        }
        if ready.is_empty() && clock::now_ns() >= last_ns + ANSWERED.as_nanos() as u64 {
            return Err(format!("{open} requests have no answer"));
        }
        for event in ready {
            let connection = event.u64 as usize;
            let one = &mut connections[connection];
            if !one.read()? {
                continue;
            }
            last_ns = clock::now_ns();
            answered(Answered { connection, begin_ns: one.begin_ns, end_ns: last_ns });
            if next(connection, one.cleared(), last_ns) { one.send()? } else { open -= 1 }
        }
    }
    Ok(())
}

pub(crate) fn broken(error: io::Error) -> String {
    reason(&error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// Connections, and for each a server that gives back each byte but the byte `wrong`, and ends
    /// with its connection.
    fn echoes(count: usize, wrong: Option<u8>) -> Vec<Connection<UnixStream>> {
        let one = |_| {
            let (here, mut there) = UnixStream::pair().unwrap();
            thread::spawn(move || {
                let mut byte = [0];
                while there.read(&mut byte).is_ok_and(|read| read == 1) {
                    let answer = if wrong == Some(byte[0]) { [b'?'] } else { byte };
                    if there.write_all(&answer).is_err() {
                        break;
                    }
                }
            });
            Connection::new(here)
        };
        (0..count).map(one).collect()
    }

    fn echo(exchange: &mut Exchange, text: &[u8]) {
        exchange.request.extend(text);
        exchange.answer.extend(text);
    }

    #[test]
    fn each_request_has_its_answer_and_its_times() {
        let mut connections = echoes(3, None);
        connections.iter_mut().for_each(|one| one.ask(|exchange| echo(exchange, b"hello")).unwrap());
        for requests in [0, 2, 100] {
            let (mut sent, mut all) = (0, Vec::new());
            let next = |at, exchange: &mut Exchange, now_ns| {
                assert!(at < 3);
                assert!(exchange.request.is_empty() && exchange.answer.is_empty() && now_ns > 0);
                echo(exchange, b"a request");
                sent += 1;
                sent <= requests
            };
            serve(&mut connections, next, |answered| all.push(answered)).unwrap();
            assert_eq!(all.len(), requests);
            assert!(all.iter().all(|one| one.connection < 3 && one.begin_ns <= one.end_ns));
            assert!(all.is_sorted_by_key(|one| one.end_ns));
        }
    }

    #[test]
    fn another_answer_ends_the_loop() {
        let mut connections = echoes(2, Some(b'!'));
        let mut texts = [&b"a"[..], b"b", b"so!", b"d"].into_iter();
        let next = |_, exchange: &mut Exchange, _| texts.next().map(|text| echo(exchange, text)).is_some();
        let told = serve(&mut connections, next, |_| {}).unwrap_err();
        assert!(told.ends_with("?' in the answer to 'so!'"), "{told}");
    }

    #[test]
    fn an_answer_that_is_too_long_is_another_one() {
        let mut connections = echoes(1, None);
        let told = connections[0].ask(|exchange| {
            exchange.request.extend(b"xy");
            exchange.answer.extend(b"x");
        });
        // The second byte may come with the first one, or not until the next request.
        let next = |exchange: &mut Exchange| echo(exchange, b"z");
        assert!(told.and_then(|()| connections[0].ask(next)).unwrap_err().contains("in the answer to"));
    }

    #[test]
    fn a_connection_that_ends_is_told() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut one = Connection::new(here);
        let server = thread::spawn(move || (&there).read_exact(&mut [0]));
        let told = one.ask(|exchange| echo(exchange, b"x")).unwrap_err();
        server.join().unwrap().unwrap();
        assert_eq!(told, "the connection ends before the answer to 'x'");
    }
}
