//! Which file descriptors are sockets, as far as a caller has asked.
//!
//! Two bits each: unknown, a socket, something else. A descriptor's bits are forgotten when it is
//! closed. A descriptor may be closed behind our back and come back as something else. It is then
//! taken for what it was: a request begins that is none, or a request is missed, and nothing else
//! happens.

use super::requests;
use crate::elf::link_map;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU64, Ordering};
use libc::ssize_t;
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

/// The function `name` that a call from the module with this dynamic section reaches; 0 if there is
/// none.
///
/// # Safety
/// The name ends with a zero. No thread opens or closes libraries meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn manx_requests_next(name: *const c_char, dynamic: usize) -> usize {
    // SAFETY: the caller's promise.
    link_map::next(unsafe { CStr::from_ptr(name) }, dynamic).unwrap_or(0)
}

/// A descriptor was made.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_made(descriptor: c_int) {
    forget(descriptor);
}

/// Notes that `result` bytes were read from a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_read(descriptor: c_int, result: ssize_t) {
    if result > 0 && requests::wanted() && is_socket(descriptor) {
        requests::began(descriptor);
    }
}

/// Something is about to be written to a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_answers(descriptor: c_int) {
    requests::answers(descriptor);
}

/// Notes that `result` bytes were written to it.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_answered(descriptor: c_int, result: ssize_t) {
    requests::answered(descriptor, result);
}

/// A descriptor is about to be closed.
#[unsafe(no_mangle)]
pub extern "C" fn manx_requests_closed(descriptor: c_int) {
    requests::closed(descriptor);
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
