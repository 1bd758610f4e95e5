//! Waiting for one descriptor (`poll`): unlike [`epoll`](crate::epoll) it needs no descriptor of
//! its own, so it works also where none are left.

use crate::syscall::syscall5;

/// Waits until something can be written to the descriptor or, if `reading`, read from it; or its
/// other side is gone; or a signal came.
///
/// ```
/// use std::os::fd::AsRawFd;
///
/// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
/// // There is room.
/// platform::poll::wait_to_write(here.as_raw_fd(), false);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait_to_write(descriptor: i32, reading: bool) {
    let events = libc::POLLOUT | if reading { libc::POLLIN } else { 0 };
    let mut one = libc::pollfd { fd: descriptor, events, revents: 0 };
    // SAFETY: the kernel reads one descriptor and writes what happened to it; there is no limit and
    // no signal mask. What it returns says no more than that the caller may look: an error is seen
    // there as well.
    let _ = unsafe { syscall5(libc::SYS_ppoll, (&raw mut one).addr(), 1, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    #[test]
    fn a_wait_to_write_ends_when_there_is_room_or_on_request_when_there_is_data() {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        while here.write(&[0; 4096]).is_ok() {}
        // Something to read ends it, if that is asked for.
        there.write_all(b"x").unwrap();
        wait_to_write(here.as_raw_fd(), true);
        thread::scope(|scope| {
            // The other side makes room.
            scope.spawn(|| while there.read(&mut [0; 4096]).is_ok_and(|count| count == 4096) {});
            wait_to_write(here.as_raw_fd(), false);
            while here.write(b"x").is_err() {
                wait_to_write(here.as_raw_fd(), false);
            }
            drop(here);
        });
    }
}
