//! SIGPIPE: ignored while Manx itself writes, given back as it was to the program that `manx run`
//! becomes.
//!
//! A reader that goes away (`manx stats FILE | head`) must end Manx quietly and without an error,
//! so Manx ignores the signal and takes `EPIPE` for success. A program must find the disposition
//! that Manx's own parent chose, since an ignored signal stays ignored across exec.

use crate::failure::{BROKEN, Failure, reason};
use std::io::{self, Write as _};

/// The disposition that Manx was started with.
#[derive(Clone, Copy)]
pub struct Inherited(libc::sighandler_t);

/// Ignores SIGPIPE and remembers what was there.
pub fn ignore() -> Inherited {
    // SAFETY: SIG_IGN is a valid disposition and runs no code of ours.
    Inherited(unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) })
}

impl Inherited {
    /// Puts the inherited disposition back; exec turns handlers into the default by itself.
    pub fn restore(self) {
        if self.0 != libc::SIG_ERR {
            // SAFETY: the value came from `signal` in this process, which installs no
            // handler, so it is SIG_DFL or SIG_IGN.
            unsafe { libc::signal(libc::SIGPIPE, self.0) };
        }
    }
}

/// Writes to standard output, at once. A reader that has gone is no error.
///
/// # Errors
/// With code 125 if the system refuses it otherwise, as on a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    or_unread(out.write_all(text.as_bytes()).and_then(|()| out.flush())).map_err(unwritable)
}

/// That standard output cannot be written, for a reason that is an error.
pub fn unwritable(error: io::Error) -> Failure {
    let what = format!("standard output cannot be written: {}", reason(&error));
    Failure::new(BROKEN, what, "see where it goes")
}

/// Turns the error that the reader has gone into success.
pub fn or_unread(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_broken_pipe_is_forgiven() {
        assert!(or_unread(Err(io::Error::from(io::ErrorKind::BrokenPipe))).is_ok());
        assert!(or_unread(Err(io::Error::from(io::ErrorKind::StorageFull))).is_err());
    }
}
