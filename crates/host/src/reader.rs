//! Files of `/proc` that are read again and again.
//!
//! To open, read and close such a file costs 6 µs, to read an open one 1 µs. With 5,000 threads
//! that decides whether a pass is cheap. So a file stays open as long as there is room; others are
//! opened for each reading. An open file also belongs to one process for good: when that process
//! has ended a read fails, whichever process has its number by then.
//!
//! The number of open descriptors has a limit, and each takes a page of the kernel's. [`Room`]
//! counts them: each file that stays open holds a reference, so there are as many as references.

use platform::limits::raise_open_files;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// The files that may stay open.
#[derive(Debug)]
pub struct Room {
    files: Arc<()>,
    most: usize,
}

impl Room {
    /// For `most` files beside `others` descriptors; for fewer, if this process may have no more.
    ///
    /// ```
    /// let room = host::reader::Room::beside(64, 1000);
    /// ```
    pub fn beside(others: usize, most: usize) -> Room {
        let limit = raise_open_files((most + others) as u64).unwrap_or(0);
        Room::with(usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(others).min(most))
    }

    /// For this number of files.
    pub fn with(most: usize) -> Room {
        Room { files: Arc::default(), most }
    }

    fn take(&self) -> Option<Arc<()>> {
        // One reference is the room's own.
        (Arc::strong_count(&self.files) <= self.most).then(|| Arc::clone(&self.files))
    }
}

/// A file that is read from its start again and again.
#[derive(Debug)]
pub enum Reader {
    /// It stays open, and has a place in the room.
    Open(File, Arc<()>),
    /// It is opened for each reading.
    Named(PathBuf),
}

impl Reader {
    /// Of this path; it stays open if there is room.
    pub fn of(path: PathBuf, room: &Room) -> Reader {
        match room.take().zip(File::open(&path).ok()) {
            Some((place, file)) => Reader::Open(file, place),
            None => Reader::Named(path),
        }
    }

    /// What is in it now, as far as it fits into `into`; `None` if its process has ended.
    pub fn read<'b>(&self, into: &'b mut [u8]) -> Option<&'b [u8]> {
        let length = match self {
            Reader::Open(file, _) => file.read_at(into, 0),
            Reader::Named(path) => File::open(path).and_then(|file| file.read_at(into, 0)),
        };
        Some(&into[..length.ok().filter(|&length| length > 0)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_dropped_makes_room_and_without_room_it_is_read_all_the_same() {
        let room = Room::with(2);
        let read = |path: &str| {
            let reader = Reader::of(path.into(), &room);
            let is_there = reader.read(&mut [0; 64]).is_some();
            (reader, is_there)
        };
        let one = read("/proc/self/stat");
        assert!(matches!(read("/proc/self/none"), (Reader::Named(_), false)));
        let two = read("/proc/self/stat");
        let three = read("/proc/self/stat");
        assert!(matches!((&one, &two), ((Reader::Open(..), true), (Reader::Open(..), true))));
        assert!(matches!(three, (Reader::Named(_), true)), "there are two places");
        drop(one);
        assert!(matches!(read("/proc/self/stat"), (Reader::Open(..), true)));
    }

    #[test]
    fn a_process_that_has_ended_cannot_be_read() {
        let room = Room::with(9);
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn();
        let child = child.as_mut().expect("cat");
        let reader = Reader::of(format!("/proc/{}/stat", child.id()).into(), &room);
        assert!(reader.read(&mut [0; 1024]).is_some());
        drop(child.stdin.take());
        child.wait().expect("ended");
        assert!(reader.read(&mut [0; 1024]).is_none());
    }
}
