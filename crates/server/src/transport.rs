//! Bytes from and to a client: over its socket as they are, or through TLS.
//!
//! Reading waits if the socket is in blocking mode. Writing never does: what the kernel does not
//! take is the caller's to keep. So a client that does not read cannot hold up the thread that
//! answers it.

use crate::peer::Peer;
use crate::tls::Tls;
use rustls::ServerConnection;
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

/// What TLS keeps of answers that are not yet encrypted or sent, at most.
const TLS_BUFFER_BYTES: usize = 256 * 1024;

/// A client's bytes.
pub(crate) struct Transport {
    peer: Arc<Peer>,
    tls: Option<Box<ServerConnection>>,
}

/// A socket whose writes never wait.
struct Unwaiting<'a>(&'a Socket);

impl Read for Unwaiting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.0;
        socket.read(into)
    }
}

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport {
    pub(crate) fn new(peer: Arc<Peer>, tls: Option<&Tls>) -> Result<Transport, rustls::Error> {
        let tls = match tls {
            None => None,
            Some(tls) => {
                let mut connection = ServerConnection::new(Arc::clone(&tls.0))?;
                connection.set_buffer_limit(Some(TLS_BUFFER_BYTES));
                Some(Box::new(connection))
            }
        };
        Ok(Transport { peer, tls })
    }

    /// Whether a read that gave less than there was room for shows that nothing more is there.
    pub(crate) fn short_read_is_all(&self) -> bool {
        self.tls.is_none()
    }

    /// Whether TLS is still to be agreed on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads some bytes; none at the end.
    ///
    /// # Errors
    /// `WouldBlock` if there are none now; anything else ends the connection.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut socket = Unwaiting(&self.peer.socket);
        let Some(tls) = &mut self.tls else { return socket.read(into) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It closed the socket and did not say so before.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            push(tls, &mut socket)?;
            tls.read_tls(&mut socket)?;
            if let Err(error) = tls.process_new_packets() {
                // The client gets the alert, if it still reads.
                let _ = push(tls, &mut socket);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
    }

    /// Sends some bytes, as many as are taken now.
    ///
    /// # Errors
    /// `WouldBlock` if that is none; anything else ends the connection.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut socket = Unwaiting(&self.peer.socket);
        let Some(tls) = &mut self.tls else { return socket.write(bytes) };
        let taken = tls.writer().write(bytes)?;
        push(tls, &mut socket)?;
        if taken == 0 && !bytes.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Whether something is left that was written and is not sent; what can be sent is.
    pub(crate) fn is_behind(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return false };
        // A failure is seen by the next read.
        let _ = push(tls, &mut Unwaiting(&self.peer.socket));
        tls.wants_write()
    }

    /// Says that nothing more comes.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = push(tls, &mut Unwaiting(&self.peer.socket));
        }
        // It fails if the client is gone, which is as good.
        let _ = self.peer.socket.shutdown(std::net::Shutdown::Write);
    }
}

/// Sends what TLS has ready, as far as the kernel takes it.
fn push(tls: &mut ServerConnection, socket: &mut Unwaiting<'_>) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
