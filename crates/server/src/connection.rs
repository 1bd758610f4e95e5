//! A connection: reads commands, runs them, and sends the answers, in order.
//!
//! Both models run it in *turns*. A turn reads once, runs the commands that are complete, and sends
//! the answers as far as the client takes them. Answers that a client does not read pile up to a
//! bound; then the client is disconnected, because it would fill the server's memory. A command
//! whose answer passes the bound stops in the middle of it. So nothing of such an answer is sent,
//! and nothing behind it.
//!
//! Messages for a client that subscribes to something (`pubsub/`) are sent together with answers: a
//! turn takes those that are there before it does a command, and further ones before it sends.
//!
//! Invariants:
//! 1. A command's answer is in the output before the next command is begun, so answers have the
//!    order of the commands.
//! 2. What was answered is committed, and durable if it is to be. What was committed is answered,
//!    unless the client is gone, does not read, or has asked for more than may be answered; if it
//!    is not known to be durable, the answer is an error, and the connection is closed.
//! 3. After [`Turn::Over`] nothing is read or done any more, and nothing is sent.
//! 4. While there may be more to read, a turn says so ([`Turn::Again`]), also if answers are
//!    waiting. epoll reports an event only once, so the caller must not wait for another one.

use crate::command::{Call, Client, execute, resume};
use crate::input::Input;
use crate::large::Large;
use crate::peer::{Peer, Registration};
use crate::pubsub::Left;
use crate::resp::{Limits, Parser, Replies, Step};
use crate::room::LARGE;
use crate::shared::{Shared, count};
use crate::transact::settle;
use crate::transport::Transport;
use manx::txn::Session;
use std::io::ErrorKind;
use std::sync::Arc;

/// Answers are sent from this number of bytes on, even if there are commands left.
const SEND_BYTES: usize = 64 * 1024;
/// The most bytes of answers that a client may leave unread before it has said the password.
const UNAUTHENTICATED_UNREAD_MAX: usize = 64 * 1024;

/// A connection.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    transport: Transport,
    input: Input,
    parser: Parser,
    client: Client,
    session: Session,
    out: Replies,
    /// The client has closed its side, so there is more to read than bytes.
    expects_end: bool,
    /// It may receive a large command (`room.rs`).
    has_claim: bool,
    /// What has not come of a large argument, as [`Memory`](crate::memory::Memory) was told.
    missing: usize,
    /// The peer has been told ([`Peer::establish`]).
    is_established: bool,
    /// The last field: when the last registration is dropped, no connection has the store any more.
    _registration: Registration,
}

/// What a turn ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There may be more to read; answers may be waiting too ([`Connection::is_behind`]).
    Again,
    /// There may be more to read, but there is no room for it now ([`Connection::claim`]).
    Crowded,
    /// There is nothing to read now, and all answers are sent.
    Read,
    /// There is nothing to read now, and answers are waiting for the client to read.
    Write,
    /// The connection is to be closed.
    Over,
}

impl Connection {
    /// A connection that is served from now on; or an error for the client.
    pub(crate) fn new(shared: Arc<Shared>, peer: Arc<Peer>) -> Result<Connection, String> {
        let session = shared.store.session().map_err(|error| format!("ERR {error}"))?;
        let transport =
            Transport::new(Arc::clone(&peer), shared.options.tls.as_ref().filter(|_| !peer.is_unix));
        let transport = transport.map_err(|error| format!("ERR {error}"))?;
        let registration = Registration::new(&shared.peers, &peer);
        let client = Client::new(peer, &shared.acl);
        let out = Replies::new(shared.options.output_bytes_max);
        let mut connection = Connection {
            shared,
            transport,
            input: Input::new(),
            parser: Parser::new(),
            client,
            session,
            out,
            expects_end: false,
            has_claim: false,
            missing: 0,
            is_established: false,
            _registration: registration,
        };
        connection.establish();
        Ok(connection)
    }

    /// Reads once, does what has come, and answers: [`Connection::receive`] and
    /// [`Connection::deliver`].
    pub(crate) fn turn(&mut self) -> Turn {
        let received = self.receive(true);
        self.deliver(received)
    }

    /// Reads once, if something `has_come`, and does what has come completely. What it returns is
    /// [`Connection::deliver`]'s, which sends the answers: [`Turn::Again`] if there may be more to
    /// read then, [`Turn::Read`] if not, [`Turn::Crowded`] if there is no room for it,
    /// [`Turn::Over`] if nothing can be sent any more.
    pub(crate) fn receive(&mut self, has_come: bool) -> Turn {
        let received = self.read(has_come);
        // Before the answers are sent: the next connection of the batch takes this buffer.
        self.input.rest();
        received
    }

    fn read(&mut self, has_come: bool) -> Turn {
        if self.client.is_leaving {
            return Turn::Read;
        }
        if self.client.waiting.is_some() && !self.answer() {
            return Turn::Over;
        }
        if !has_come {
            return Turn::Read;
        }
        if self.input.needed() > LARGE {
            if !self.claim() {
                return Turn::Crowded;
            }
            self.make_room();
        }
        let room = self.input.room();
        let asked = room.len();
        let got = match self.transport.read(room) {
            Ok(0) => {
                self.client.is_leaving = true;
                return Turn::Read;
            }
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Turn::Again,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.establish();
                return Turn::Read;
            }
            Err(_) => return Turn::Over,
        };
        self.input.came(got);
        self.record_missing(self.input.missing_bytes());
        if !self.answer() {
            return Turn::Over;
        }
        self.establish();
        if self.has_claim && self.input.needed() <= LARGE {
            self.release();
        }
        if got == asked || self.expects_end || !self.transport.short_read_is_all() {
            Turn::Again
        } else {
            Turn::Read
        }
    }

    /// Whether the rest of a large command may be received now.
    pub(crate) fn claim(&mut self) -> bool {
        let (bytes, received) = (self.input.needed(), self.input.received_bytes());
        self.has_claim = self.shared.room.claim(self.client.peer.id, bytes, received);
        self.has_claim
    }

    /// The large argument that is being received, if there is one, gets its memory: not before
    /// there is a claim.
    fn make_room(&mut self) {
        if let Some((at, length)) = self.parser.awaits_large(LARGE) {
            self.parser.leave_out();
            // Before it is allocated, so that it is never counted as used.
            self.record_missing(length);
            self.input.divert(at, Large::new(length, self.shared.keyspace.stamp()));
        }
    }

    #[inline]
    fn record_missing(&mut self, missing: usize) {
        if missing != self.missing {
            self.shared.memory.misses(missing as i64 - self.missing as i64);
            self.missing = missing;
        }
    }

    #[cold]
    fn release(&mut self) {
        self.has_claim = false;
        self.shared.room.release(self.client.peer.id);
    }

    /// Waits until there may be room for the rest of a large command.
    pub(crate) fn wait_for_room(&self) {
        self.shared.room.wait();
    }

    /// Notes that the client has identified itself, once it has.
    fn establish(&mut self) {
        if !self.is_established && self.client.is_known(&self.shared) && !self.transport.is_handshaking() {
            self.is_established = true;
            self.client.peer.establish();
        }
    }

    /// Sends what the client takes, after [`Connection::receive`] has returned `received`.
    pub(crate) fn deliver(&mut self, received: Turn) -> Turn {
        if received == Turn::Over {
            return Turn::Over;
        }
        let sent = self.send();
        if self.client.is_leaving {
            self.client.retire(&self.shared.pubsub);
        }
        self.out.rest();
        self.record_buffers();
        match sent {
            Turn::Read => received,
            // Invariant 4. What piles up meanwhile has its bound.
            Turn::Write if received != Turn::Read => received,
            turn => turn,
        }
    }

    /// Whether answers are waiting for the client to read.
    pub(crate) fn is_behind(&mut self) -> bool {
        !self.out.bytes().is_empty() || self.transport.is_behind()
    }

    /// Whether the answers wait for a disk.
    pub(crate) fn awaits_disk(&self) -> bool {
        self.out.awaited().is_some()
    }

    /// Whether something is still read from the client.
    pub(crate) fn reads(&self) -> bool {
        !self.client.is_leaving
    }

    /// Whether it is to be served after a [`wake`](crate::waker::Waker::wake), too.
    pub(crate) fn listens(&self) -> bool {
        self.client.listens()
    }

    /// The client has closed its side: a read that gives less than there was room for is not the
    /// last one.
    pub(crate) fn expect_end(&mut self) {
        self.expects_end = true;
    }

    /// Does all commands that are complete. Returns whether the connection goes on.
    fn answer(&mut self) -> bool {
        let mut commands = 0;
        let mut goes_on = true;
        self.out.begin();
        // As in Redis: what was published before comes first.
        self.client.deliver(&mut self.out, usize::MAX);
        if !self.resume() {
            return false;
        }
        while goes_on && !self.client.is_leaving && self.client.waiting.is_none() {
            if self.client.peer.is_killed() {
                return false;
            }
            let Connection { shared, input, parser, client, session, out, .. } = self;
            let limits = Limits {
                command_bytes_max: shared.options.input_bytes_max,
                stranger: !client.is_known(shared),
            };
            let large = parser.left_out().zip(input.large());
            let taken = match parser.step(input.received(), limits) {
                Ok(Step::Command(args, taken)) => {
                    let args = args.with(large);
                    commands += 1;
                    let _request = shared.request.as_ref().map(manx::slo::Epoch::enter);
                    execute(&mut Call { client, shared }, session, args, out);
                    taken
                }
                Ok(Step::Nothing(taken)) => taken,
                Ok(Step::More(bytes)) => {
                    input.expect(bytes);
                    break;
                }
                Err(error) => {
                    count(&shared.counts.malformed);
                    let mark = out.mark();
                    out.error(&format!("ERR {error}"));
                    client.silence(out, mark);
                    client.is_leaving = true;
                    0
                }
            };
            input.take(taken);
            if self.out.bytes().len() > SEND_BYTES || self.out.is_over() {
                goes_on = self.send() != Turn::Over;
            }
        }
        self.client.peer.record_commands(commands, self.out.version());
        goes_on
    }

    /// Answers the command that waits, if there is one and that can be. Returns whether the
    /// connection goes on: what comes behind such a command is kept until then, up to a bound.
    #[inline]
    fn resume(&mut self) -> bool {
        if self.client.waiting.is_none() {
            return true;
        }
        let Connection { shared, client, session, out, .. } = self;
        if client.peer.is_killed() {
            return false;
        }
        let is_answered = resume(&mut Call { client, shared }, session, out);
        is_answered || self.input.received_bytes() <= self.shared.options.input_bytes_max
    }

    fn record_buffers(&self) {
        let of_client = self.client.memory_bytes();
        let bytes = self.input.memory_bytes() + self.out.memory_bytes() + of_client;
        let Shared { buffers, peers, counts, .. } = &*self.shared;
        buffers.record(self.peer(), bytes as u64, peers, &counts.evicted_clients);
    }

    /// Sends what the client takes.
    fn send(&mut self) -> Turn {
        // Before anything is written: the kernel may take so much that what is left would not be
        // too much, and the last answer may not be whole.
        if self.out.is_over() {
            return self.too_slow();
        }
        if !settle(&self.shared, &mut self.out) {
            self.client.is_leaving = true;
        }
        let left = self.client.deliver(&mut self.out, SEND_BYTES);
        if left == Left::TooMuch {
            return self.too_slow();
        }
        while !self.out.bytes().is_empty() {
            match self.transport.write(self.out.bytes()) {
                Ok(0) => return Turn::Over,
                Ok(sent) => self.out.sent(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Turn::Over,
            }
        }
        if self.out.bytes().len() > UNAUTHENTICATED_UNREAD_MAX && !self.client.is_known(&self.shared) {
            return self.too_slow();
        }
        if self.is_behind() {
            Turn::Write
        } else if self.client.is_leaving {
            Turn::Over
        } else if left == Left::Some {
            Turn::Again
        } else {
            Turn::Read
        }
    }

    /// There are more answers than may be.
    #[cold]
    fn too_slow(&self) -> Turn {
        count(&self.shared.counts.slow);
        Turn::Over
    }

    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.client.peer
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The memory is freed before it is reported as freed (`Memory::misses`).
        self.input = Input::new();
        self.record_missing(0);
        self.client.unsubscribe(&self.shared.pubsub);
        self.shared.buffers.forget(self.peer());
        if self.has_claim {
            self.release();
        }
        self.transport.end();
    }
}
