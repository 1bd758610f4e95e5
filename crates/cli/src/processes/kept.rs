//! Files of `/proc` that stay open from pass to pass.
//!
//! To open and close such a file costs 5 µs, to read an open one 1 µs. With 5,000 threads that
//! decides whether a pass is cheap. An open file also belongs to one process for good: when that
//! process has ended a read fails, whichever process has its number by then.
//!
//! The number of open descriptors has a limit. [`Room`] counts them. The files of threads may take
//! three quarters, so that the files of processes always find room.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The most files that are kept open.
const FILES_MAX: u64 = 16_384;
/// Descriptors that are left for all else.
const LEFT: u64 = 64;

/// The files that may still be opened.
#[derive(Clone, Debug)]
pub struct Room {
    taken: Rc<Cell<usize>>,
    most: usize,
}

impl Room {
    /// As many as the limit of this process allows, which is raised as far as it may be.
    pub fn of_this_process() -> Room {
        Room::with(raise_limit().saturating_sub(LEFT).min(FILES_MAX) as usize)
    }

    /// With this limit.
    pub fn with(most: usize) -> Room {
        Room { taken: Rc::default(), most }
    }

    fn take(&self, most: usize) -> Option<Place> {
        let taken = self.taken.get();
        (taken < most).then(|| {
            self.taken.set(taken + 1);
            Place(Rc::clone(&self.taken))
        })
    }
}

/// Raises the limit of descriptors, and returns it.
fn raise_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the address is that of a local of the right type.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 256;
    }
    let wanted = limit.rlim_max.min(FILES_MAX + LEFT).max(limit.rlim_cur);
    let raised = libc::rlimit { rlim_cur: wanted, ..limit };
    // SAFETY: as above.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    if result == 0 { wanted } else { limit.rlim_cur }
}

/// A descriptor that is taken until this is dropped.
#[derive(Debug)]
struct Place(Rc<Cell<usize>>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An open file.
#[derive(Debug)]
pub struct Kept {
    file: File,
    _place: Place,
}

impl Kept {
    /// Opens a thread's file; `None` if there is no room, or no such file.
    pub fn of_thread(path: &Path, room: &Room) -> Option<Kept> {
        Kept::open(path, room, room.most / 4 * 3)
    }

    fn open(path: &Path, room: &Room, most: usize) -> Option<Kept> {
        let _place = room.take(most)?;
        Some(Kept { file: File::open(path).ok()?, _place })
    }

    /// What is in it now, as far as it fits into `into`; `None` if its process has ended.
    pub fn read<'b>(&self, into: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = self.file.read_at(into, 0).ok().filter(|&length| length > 0)?;
        Some(&into[..length])
    }
}

/// A process's file, kept open if there is room and opened again and again if not.
#[derive(Debug)]
pub enum Reader {
    /// Kept open
    Kept(Kept),
    /// Opened for each reading
    Named(PathBuf),
}

impl Reader {
    /// Of this path.
    pub fn of(path: PathBuf, room: &Room) -> Reader {
        Kept::open(&path, room, room.most).map_or(Reader::Named(path), Reader::Kept)
    }

    /// As [`Kept::read`].
    pub fn read<'b>(&self, into: &'b mut [u8]) -> Option<&'b [u8]> {
        match self {
            Reader::Kept(kept) => kept.read(into),
            Reader::Named(path) => {
                let length = File::open(path).and_then(|file| file.read_at(into, 0));
                Some(&into[..length.ok().filter(|&length| length > 0)?])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_dropped_makes_room() {
        let room = Room::with(4);
        let path = Path::new("/proc/self/stat");
        let mut kept: Vec<Kept> = (0..3).map(|_| Kept::of_thread(path, &room).expect("room")).collect();
        assert!(Kept::of_thread(path, &room).is_none(), "a quarter is for processes");
        kept.pop();
        assert!(Kept::of_thread(path, &room).is_some());
        assert!(Kept::of_thread(Path::new("/proc/self/none"), &room).is_none());
        assert!(Kept::of_thread(path, &room).is_some(), "a file that is not there takes no room");
    }

    #[test]
    fn without_room_a_process_is_read_all_the_same() {
        let room = Room::with(1);
        let mut text = [0; 64];
        let readers = [(); 2].map(|()| Reader::of("/proc/self/stat".into(), &room));
        assert!(matches!(readers, [Reader::Kept(_), Reader::Named(_)]));
        assert!(readers.iter().all(|reader| reader.read(&mut text).is_some()));
    }

    #[test]
    fn a_process_that_has_ended_cannot_be_read() {
        let room = Room::with(9);
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn();
        let child = child.as_mut().expect("cat");
        let reader = Reader::of(format!("/proc/{}/stat", child.id()).into(), &room);
        let mut text = [0; 1024];
        assert!(reader.read(&mut text).is_some());
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(reader.read(&mut text).is_none());
    }
}
