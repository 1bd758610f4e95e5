//! Wakes the thread of one connection, which waits for its client in the kernel: what it waits for
//! is a descriptor, so a bell is a pipe.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// See [the module](self).
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
