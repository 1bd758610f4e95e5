//! Which connections are ready, by epoll, and how all threads that ask see the end of the server.
//!
//! Each event of a connection goes to one thread. Nothing has to be armed again. A connection
//! leaves when it is closed, or moves to another loop (`loops.rs`). The end is a pipe whose writing
//! side is closed: all threads that ask see that, each time.

use platform::epoll::{Epoll, Interest};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

/// Not a connection's number.
const END: u64 = u64::MAX;

/// The connections that have something to do.
pub(super) struct Ready {
    set: Epoll,
    _end: PipeReader,
    goes_on: Mutex<Option<PipeWriter>>,
}

/// Ready connections: the number of each, and whether no more comes from its client.
pub(super) type ReadyList = Vec<(u64, bool)>;

impl Ready {
    pub(super) fn new() -> io::Result<Ready> {
        let set = Epoll::new().map_err(io::Error::from_raw_os_error)?;
        let (end, goes_on) = io::pipe()?;
        set.add(end.as_raw_fd(), END, Interest::Reading).map_err(io::Error::from_raw_os_error)?;
        Ok(Ready { set, _end: end, goes_on: Mutex::new(Some(goes_on)) })
    }

    /// Reports this connection from now on, by its number.
    pub(super) fn add(&self, socket: &impl AsRawFd, number: u64) -> io::Result<()> {
        self.set.add(socket.as_raw_fd(), number, Interest::Edges).map_err(io::Error::from_raw_os_error)
    }

    /// Reports this connection no more.
    pub(super) fn remove(&self, socket: &impl AsRawFd) {
        self.set.remove(socket.as_raw_fd());
    }

    /// Asks which connections are ready now, and is told of `most` at most.
    pub(super) fn look(&self, ready_list: &mut ReadyList, most: usize) {
        self.ask(ready_list, 0, most);
    }

    /// Waits until a connection is ready, or the server ends; or a signal came, and the caller asks
    /// again.
    pub(super) fn wait(&self, ready_list: &mut ReadyList, most: usize) {
        self.ask(ready_list, -1, most);
    }

    fn ask(&self, ready_list: &mut ReadyList, timeout_ms: i32, most: usize) {
        ready_list.clear();
        self.set.wait(timeout_ms, most, |event| ready_list.push((event.number, event.is_ending)));
    }

    /// From now on no thread waits.
    pub(super) fn end(&self) {
        *self.goes_on.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
