//! Waiting for one or two descriptors (`poll`): unlike [`epoll`](crate::epoll) it needs no
//! descriptor of its own, so it works also where none are left.

use crate::syscall::syscall5;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// That something can be read.
    pub read: bool,
    /// That something can be written.
    pub write: bool,
}

/// Waits until the descriptor is as wanted or its other side is gone, or something can be read from
/// `bell`, if there is one; or a signal came.
///
/// ```
/// use platform::poll::{Wanted, wait};
/// use std::os::fd::AsRawFd;
///
/// let (here, _there) = std::os::unix::net::UnixStream::pair()?;
/// // There is room.
/// wait(here.as_raw_fd(), Wanted { read: false, write: true }, None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn wait(descriptor: i32, Wanted { read, write }: Wanted, bell: Option<i32>) {
    let events = if read { libc::POLLIN } else { 0 } | if write { libc::POLLOUT } else { 0 };
    let first = libc::pollfd { fd: descriptor, events, revents: 0 };
    // The kernel leaves out a negative descriptor.
    let second = libc::pollfd { fd: bell.unwrap_or(-1), events: libc::POLLIN, revents: 0 };
    let mut both = [first, second];
    // SAFETY: the kernel reads two descriptors and writes what happened to them; there is no limit
    // and no signal mask. What it returns says no more than that the caller may look: an error is
    // seen there as well.
    let _ = unsafe { syscall5(libc::SYS_ppoll, both.as_mut_ptr().addr(), both.len(), 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::thread;

    /// Waits to write, or also to read.
    fn wait_to_write(descriptor: i32, read: bool) {
        wait(descriptor, Wanted { read, write: true }, None);
    }

    #[test]
    fn a_wait_ends_when_the_bell_can_be_read() {
        let (here, _there) = UnixStream::pair().unwrap();
        let (bell, mut ringer) = UnixStream::pair().unwrap();
        let wait = || {
            let nothing = Wanted { read: true, write: false };
            wait(here.as_raw_fd(), nothing, Some(bell.as_raw_fd()));
        };
        thread::scope(|scope| {
            scope.spawn(|| ringer.write_all(b"x").unwrap());
            wait();
        });
        // It stays readable until it is read.
        wait();
    }

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
