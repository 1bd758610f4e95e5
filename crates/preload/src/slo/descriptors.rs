//! Which file descriptors are sockets, as far as a caller has asked.
//!
//! Two bits each: unknown, a socket, something else. A descriptor's bits are forgotten when it is
//! closed. A descriptor may be closed behind our back and come back as something else. It is then
//! taken for what it was: a request begins that is none, or a request is missed, and nothing else
//! happens.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use platform::syscall::syscall;

/// Descriptors from this one on are asked about each time.
const KEPT: usize = 1 << 18;
const PER_WORD: usize = 32;
const UNKNOWN: u64 = 0;
const SOCKET: u64 = 1;
const OTHER: u64 = 2;
const MASK: u64 = 3;

/// Pages that no thread touches take no memory.
static KINDS: [AtomicU64; KEPT / PER_WORD] = [const { AtomicU64::new(0) }; KEPT / PER_WORD];

/// The word of a descriptor, and where in it.
fn place(descriptor: usize) -> Option<(&'static AtomicU64, u32)> {
    let word = KINDS.get(descriptor / PER_WORD)?;
    Some((word, (descriptor % PER_WORD) as u32 * MASK.count_ones()))
}

/// Whether it is a socket.
pub fn is_socket(descriptor: c_int) -> bool {
    let Ok(descriptor) = usize::try_from(descriptor) else { return false };
    let Some((word, shift)) = place(descriptor) else { return ask(descriptor) };
    // Relaxed, here and below: each descriptor's bits are all there is to see.
    match word.load(Ordering::Relaxed) >> shift & MASK {
        UNKNOWN => {
            let socket = ask(descriptor);
            word.fetch_or(if socket { SOCKET } else { OTHER } << shift, Ordering::Relaxed);
            socket
        }
        kind => kind == SOCKET,
    }
}

/// Forgets a descriptor that is about to be closed.
pub fn forget(descriptor: c_int) {
    let Some((word, shift)) = usize::try_from(descriptor).ok().and_then(place) else { return };
    if word.load(Ordering::Relaxed) >> shift & MASK != UNKNOWN {
        word.fetch_and(!(MASK << shift), Ordering::Relaxed);
    }
}

/// Asks the kernel; leaves `errno` alone.
#[cold]
fn ask(descriptor: usize) -> bool {
    let mut kind: c_int = 0;
    let mut bytes = size_of::<c_int>() as libc::socklen_t;
    let (kind, bytes) = ((&raw mut kind).addr(), (&raw mut bytes).addr());
    let arguments = [descriptor, libc::SOL_SOCKET as usize, libc::SO_TYPE as usize, kind, bytes, 0];
    // SAFETY: the kernel writes to these two variables, which outlive the call.
    unsafe { syscall(libc::SYS_getsockopt, arguments) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn sockets_and_files_are_told_apart_and_forgotten() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for _ in 0..2 {
            assert!(is_socket(one.as_raw_fd()));
            assert!(!is_socket(file.as_raw_fd()));
        }
        assert!(!is_socket(-1));
        assert!(!is_socket(c_int::MAX));
        // The kernel is not asked again …
        // SAFETY: both are open, and only this test uses the second one.
        assert!(unsafe { libc::dup2(one.as_raw_fd(), file.as_raw_fd()) } >= 0);
        assert!(!is_socket(file.as_raw_fd()));
        // … until it was forgotten.
        forget(file.as_raw_fd());
        assert!(is_socket(file.as_raw_fd()));
    }
}
