//! Files that a fork's child does not keep.
//!
//! A lock of an open file description lasts until the last descriptor of it is closed, and a fork's
//! child has one. So a child that knows nothing of it would keep its dead parent's locks.
//! [`OwnFile`] is a file whose descriptor is closed in the child, before the child's own code runs.
//! (A program that forks by the system call itself, not by the C library's function, keeps what it
//! got.)
//!
//! Invariants:
//! 1. A place of the table that is not `NONE` holds the descriptor of one [`OwnFile`], which is
//!    open.
//! 2. The child's handler runs before any other code of the child, so what the table holds there
//!    are copies of the parent's.

use crate::atomic::{AtomicI32, Ordering};
use crate::file::File;
use crate::fork;
use crate::syscall::syscall1;
use std::mem::ManuallyDrop;
use std::sync::Once;

/// So many descriptors are closed in children.
const PLACES: usize = 1024;
const NONE: i32 = -1;

static DESCRIPTORS: [AtomicI32; PLACES] = [const { AtomicI32::new(NONE) }; PLACES];

/// A file that is this process's own: a fork's child does not have it.
///
/// ```
/// use platform::file::File;
/// use platform::own_file::OwnFile;
///
/// let file = OwnFile::new(File::open(c"/proc/self/stat").unwrap()).unwrap();
/// assert!(file.get().is_some());
/// ```
#[derive(Debug)]
pub struct OwnFile {
    file: ManuallyDrop<File>,
    place: usize,
    generation: u32,
}

impl OwnFile {
    /// Makes the file this process's own.
    ///
    /// # Errors
    /// `EMFILE`: the process has a thousand of them.
    pub fn new(file: File) -> Result<OwnFile, i32> {
        fork::watch();
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            // SAFETY: the handler makes system calls only. If there is no memory for it, children
            // keep the files.
            unsafe { libc::pthread_atfork(None, None, Some(close_in_child)) };
        });
        let descriptor = file.descriptor();
        let take = |place: &AtomicI32| {
            // Relaxed, here and below: a fork copies the calling thread's memory, and another
            // thread's file that is new or closed at this moment is in the copy as it is in the
            // table.
            place.compare_exchange(NONE, descriptor, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let Some(place) = DESCRIPTORS.iter().position(take) else { return Err(libc::EMFILE) };
        Ok(OwnFile { file: ManuallyDrop::new(file), place, generation: fork::generation() })
    }

    /// The file; `None` in a child of the process that opened it.
    #[inline]
    pub fn get(&self) -> Option<&File> {
        (self.generation == fork::generation()).then_some(&self.file)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            // Closed already, and its number may be somebody else's by now.
            return;
        }
        DESCRIPTORS[self.place].store(NONE, Ordering::Relaxed);
        // SAFETY: once, and nobody uses the file any more.
        unsafe { ManuallyDrop::drop(&mut self.file) };
    }
}

extern "C" fn close_in_child() {
    for place in &DESCRIPTORS {
        let descriptor = place.swap(NONE, Ordering::Relaxed);
        if descriptor != NONE {
            // SAFETY: the child's copy of a descriptor that is the parent's alone (Invariants 1 and
            // 2).
            let _ = unsafe { syscall1(libc::SYS_close, descriptor as usize) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_neither_the_file_nor_its_locks() {
        let path = std::env::temp_dir().join(format!("manx-own-file-{}", std::process::id()));
        let path = std::ffi::CString::new(path.to_str().expect("utf-8")).expect("no zero");
        let own = OwnFile::new(File::create(&path).expect("created")).expect("a place");
        let other = File::open_read_write(&path).expect("opened");
        crate::file::remove(&path).expect("removed");
        own.get().expect("its own").lock_range(0, 1).expect("locked");
        let (mut began, mut end) = ([0; 2], [0; 2]);
        // SAFETY: makes two descriptors, twice.
        assert_eq!(unsafe { libc::pipe(began.as_mut_ptr()) + libc::pipe(end.as_mut_ptr()) }, 0);
        // SAFETY: the child makes system calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let gone = own.get().is_none();
            // SAFETY: a byte from and to this stack: its parent goes on, and is waited for.
            unsafe {
                libc::write(began[1], [0u8; 1].as_ptr().cast(), 1);
                libc::read(end[0], [0u8; 1].as_mut_ptr().cast(), 1);
            }
            crate::memory::exit_now(i32::from(!gone));
        }
        // SAFETY: a byte to this stack.
        assert_eq!(unsafe { libc::read(began[0], [0u8; 1].as_mut_ptr().cast(), 1) }, 1);
        assert_eq!(other.try_lock_range(0, 1), Err(libc::EAGAIN), "the parent's, as before");
        drop(own);
        assert_eq!(other.try_lock_range(0, 1), Ok(()), "the child lives, and has no part of it");
        // SAFETY: a byte from this stack lets the child end; waits for it.
        unsafe {
            let mut status = -1;
            libc::write(end[1], [0u8; 1].as_ptr().cast(), 1);
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
            for descriptor in [began, end].as_flattened() {
                libc::close(*descriptor);
            }
        }
    }
}
