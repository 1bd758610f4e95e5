//! Has a connection served although its client has sent nothing: a message for the client has come,
//! or what its command waits for.
//!
//! A connection that *listens* is served once more after each [`Waker::wake`]. A pool serves it as
//! if its client had sent something. A connection's own thread waits in the kernel, so such a
//! connection has a [`Bell`], from which that thread reads as well.

use crate::peer::Peer;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// See [the module](self).
#[derive(Default)]
pub(crate) struct Waker(OnceLock<Box<Wake>>);

type Wake = dyn Fn(&Peer) + Send + Sync;

impl Waker {
    /// From now on `wake` wakes. The first call counts.
    pub(crate) fn set(&self, wake: impl Fn(&Peer) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(wake));
    }

    /// Has the peer's connection served, and so shown what the caller did before.
    #[expect(dead_code, reason = "the next commit")]
    pub(crate) fn wake(&self, peer: &Peer) {
        if let Some(wake) = self.0.get() {
            wake(peer);
        }
    }
}

/// Wakes the thread of one connection.
pub(crate) struct Bell {
    reader: PipeReader,
    writer: PipeWriter,
    /// A byte is in the pipe, or is about to be.
    is_rung: AtomicBool,
}

impl Bell {
    /// # Errors
    /// There are no descriptors left.
    pub(crate) fn new() -> io::Result<Bell> {
        let (reader, writer) = io::pipe()?;
        Ok(Bell { reader, writer, is_rung: AtomicBool::new(false) })
    }

    /// Can be read from after [`Bell::ring`].
    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Never waits: there is one byte in the pipe at most.
    pub(crate) fn ring(&self) {
        // Release: the thread that hears it sees what was done before.
        if !self.is_rung.swap(true, Ordering::Release) {
            // It cannot fail: this has both ends.
            let _ = (&self.writer).write_all(&[0]);
        }
    }

    /// Takes the ringing back. What was done before is seen.
    pub(crate) fn hear(&self) {
        if self.is_rung.load(Ordering::Relaxed) {
            // Waits at most for the thread that is just ringing.
            let _ = (&self.reader).read(&mut [0]);
            // Acquire: what was done before each ringing until now.
            self.is_rung.swap(false, Ordering::Acquire);
        }
    }
}
