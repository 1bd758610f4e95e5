//! Wakes the thread of one connection, which waits for its client in the kernel: what it waits for
//! is a descriptor, so a bell is a pipe.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How many further bells there may be: each takes two descriptors.
pub(crate) struct Bells(AtomicUsize);

impl Bells {
    pub(crate) fn new(count: usize) -> Arc<Bells> {
        Arc::new(Bells(AtomicUsize::new(count)))
    }
}

/// See [the module](self).
pub(crate) struct Bell {
    bells: Arc<Bells>,
    reader: PipeReader,
    writer: PipeWriter,
    /// A byte is in the pipe, or is about to be.
    is_rung: AtomicBool,
}

impl Bell {
    /// # Errors
    /// There are no descriptors left for it.
    pub(crate) fn new(bells: &Arc<Bells>) -> io::Result<Bell> {
        // Relaxed, here and at its end: only the number counts.
        let one_less = bells.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if one_less.is_err() {
            return Err(io::Error::other("no descriptors are left for more clients that wait or subscribe"));
        }
        let pipe = io::pipe();
        if pipe.is_err() {
            bells.0.fetch_add(1, Ordering::Relaxed);
        }
        let (reader, writer) = pipe?;
        Ok(Bell { bells: Arc::clone(bells), reader, writer, is_rung: AtomicBool::new(false) })
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

impl Drop for Bell {
    fn drop(&mut self) {
        self.bells.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_there_are_descriptors_for() {
        let bells = Bells::new(2);
        let first = Bell::new(&bells).unwrap();
        let second = Bell::new(&bells).unwrap();
        assert!(Bell::new(&bells).is_err());
        drop(first);
        let third = Bell::new(&bells).unwrap();
        assert!(Bell::new(&bells).is_err());
        drop((second, third));
    }

    #[test]
    fn it_is_heard_once_however_often_it_was_rung() {
        let bell = Bell::new(&Bells::new(1)).unwrap();
        bell.hear();
        for _ in 0..3 {
            (0..100_000).for_each(|_| bell.ring());
            bell.hear();
            assert!(!bell.is_rung.load(Ordering::Relaxed));
            bell.hear();
        }
    }
}
