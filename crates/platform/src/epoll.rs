//! Which of many descriptors have something to do (`epoll`), asked by any number of threads at
//! once.
//!
//! Descriptors are borrowed as plain numbers: the kernel forgets one by itself when the last
//! descriptor of its file is closed.

use crate::file::File;
use crate::syscall::{check, syscall1, syscall4, syscall6};
use core::mem::{ManuallyDrop, MaybeUninit};

/// The maximum number of events that one call reports.
pub const EVENTS_MAX: usize = 256;

/// A set of descriptors.
#[derive(Debug)]
pub struct Epoll(File);

/// What is told of a descriptor, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Each time that something new can be read or written, one thread is told.
    Edges,
    /// Each thread that asks is told, as long as something can be read or the other side is closed.
    Reading,
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number that the descriptor was added with.
    pub number: u64,
    /// The other side sends no more, or the connection is broken.
    pub is_ending: bool,
}

impl Epoll {
    /// An empty set. It is closed when the program executes another.
    ///
    /// ```
    /// use platform::epoll::{EVENTS_MAX, Epoll, Event, Interest};
    /// use std::os::fd::AsRawFd;
    ///
    /// let (reader, writer) = std::io::pipe()?;
    /// let set = Epoll::new().expect("descriptors are left");
    /// set.add(reader.as_raw_fd(), 7, Interest::Reading).expect("a pipe");
    /// let mut events = Vec::new();
    /// set.wait(0, EVENTS_MAX, |event| events.push(event));
    /// assert_eq!(events, []);
    /// drop(writer);
    /// set.wait(-1, EVENTS_MAX, |event| events.push(event));
    /// assert_eq!(events, [Event { number: 7, is_ending: true }]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error number of `epoll_create1`.
    pub fn new() -> Result<Epoll, i32> {
        // SAFETY: it makes a descriptor, which is ours.
        let descriptor = check(unsafe { syscall1(libc::SYS_epoll_create1, libc::EPOLL_CLOEXEC as usize) })?;
        Ok(Epoll(ManuallyDrop::into_inner(File::borrowed(descriptor as i32))))
    }

    /// A descriptor is told of from now on, by this number.
    ///
    /// # Errors
    /// The error number of `epoll_ctl`.
    pub fn add(&self, descriptor: i32, number: u64, interest: Interest) -> Result<(), i32> {
        let events = match interest {
            Interest::Edges => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET,
            Interest::Reading => libc::EPOLLIN,
        };
        let event = libc::epoll_event { events: events as u32, u64: number };
        let (set, add) = (self.0.descriptor() as usize, libc::EPOLL_CTL_ADD as usize);
        // SAFETY: the kernel reads the event.
        let added = unsafe {
            syscall4(libc::SYS_epoll_ctl, set, add, descriptor as usize, (&raw const event).addr())
        };
        check(added).map(drop)
    }

    /// A descriptor that was added is told of no more.
    ///
    /// ```
    /// use platform::epoll::{EVENTS_MAX, Epoll, Interest};
    /// use std::os::fd::AsRawFd;
    ///
    /// let (reader, writer) = std::io::pipe()?;
    /// let set = Epoll::new().expect("descriptors are left");
    /// set.add(reader.as_raw_fd(), 7, Interest::Reading).expect("a pipe");
    /// drop(writer);
    /// set.remove(reader.as_raw_fd());
    /// set.wait(0, EVENTS_MAX, |event| panic!("{event:?}"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn remove(&self, descriptor: i32) {
        let (set, delete) = (self.0.descriptor() as usize, libc::EPOLL_CTL_DEL as usize);
        // SAFETY: for this operation the kernel reads no event.
        let removed = unsafe { syscall4(libc::SYS_epoll_ctl, set, delete, descriptor as usize, 0) };
        debug_assert!(check(removed).is_ok(), "the descriptor is not in the set");
    }

    /// Tells of those that have something to do, up to `most` and [`EVENTS_MAX`]; the others come
    /// first next time. Waits this long if there are none: not at all for 0, as long as it takes
    /// for -1. Tells of none if a signal came, or the time is over.
    pub fn wait(&self, timeout_ms: i32, most: usize, each: impl FnMut(Event)) {
        let mut room = [const { MaybeUninit::<libc::epoll_event>::uninit() }; EVENTS_MAX];
        let (set, most) = (self.0.descriptor() as usize, most.clamp(1, EVENTS_MAX));
        // SAFETY: the kernel writes events into the room, at most as many as fit; no signal mask is
        // given.
        let told = unsafe {
            syscall6(libc::SYS_epoll_pwait, set, room.as_mut_ptr().addr(), most, timeout_ms as usize, 0, 0)
        };
        let ending = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
        let told = check(told).unwrap_or(0);
        // SAFETY: the kernel has written `told` events. (Its structure may be packed: fields are
        // copied.)
        let events = room[..told].iter().map(|event| unsafe { event.assume_init() });
        events.map(|event| Event { number: event.u64, is_ending: event.events & ending != 0 }).for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn an_edge_is_told_once_and_a_level_to_all() {
        let set = Epoll::new().unwrap();
        let (mut here, mut there) = UnixStream::pair().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        set.add(here.as_raw_fd(), 1, Interest::Edges).unwrap();
        set.add(reader.as_raw_fd(), u64::MAX, Interest::Reading).unwrap();
        assert_eq!(set.add(here.as_raw_fd(), 2, Interest::Edges), Err(libc::EEXIST));
        let told = |timeout_ms| {
            let mut all = Vec::new();
            set.wait(timeout_ms, EVENTS_MAX, |event| all.push((event.number, event.is_ending)));
            all
        };
        // It can be written.
        assert_eq!(told(-1), [(1, false)]);
        assert_eq!(told(0), []);
        there.write_all(b"x").unwrap();
        assert_eq!(told(-1), [(1, false)]);
        assert_eq!(told(1), []);
        here.read_exact(&mut [0]).unwrap();
        drop(there);
        assert_eq!(told(-1), [(1, true)]);
        drop(writer);
        assert_eq!((told(-1), told(-1)), (vec![(u64::MAX, true)], vec![(u64::MAX, true)]));
        drop((here, reader));
        assert_eq!(told(0), [], "what is closed has left");
    }
}
