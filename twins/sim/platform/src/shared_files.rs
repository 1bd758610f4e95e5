//! Files that the program makes, by which its processes share memory and locks.
//!
//! 1. A file has one name, and is there from the first time that it is opened to the end of the
//!    run. It is its user's own, and no program writes to it but by its memory.
//! 2. Its memory is at one address for all processes, so its cache lines are the same for all.
//! 3. A lock is of one byte, and belongs to an opening, as that of an open file description does:
//!    it ends when that is closed. A process that ends closes nothing by itself here: its files are
//!    closed when they are dropped.

use std::sync::atomic::AtomicU64;

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();

/// All files.
#[derive(Debug, Default)]
pub struct SharedFiles {
    files: Vec<SharedFile>,
    openings: u64,
}

#[derive(Debug)]
struct SharedFile {
    path: Vec<u8>,
    bytes: usize,
    memory: Box<[AtomicU64]>,
    /// The bytes that are locked, each with the number of the opening that has the lock.
    locks: Vec<(u64, u64)>,
}

/// A file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    file: usize,
    number: u64,
}

impl Opening {
    /// The number of the file.
    pub fn file(&self) -> usize {
        self.file
    }
}

impl SharedFiles {
    /// Opens the file at a path; makes an empty one if it is not there.
    pub fn open(&mut self, path: &[u8]) -> Opening {
        self.openings += 1;
        let number = self.openings;
        let file = self.files.iter().position(|file| file.path == path).unwrap_or_else(|| {
            let (path, memory) = (path.to_vec(), Box::default());
            self.files.push(SharedFile { path, bytes: 0, memory, locks: Vec::new() });
            self.files.len() - 1
        });
        Opening { file, number }
    }

    /// Closes it: its locks end.
    pub fn close(&mut self, opening: Opening) {
        self.files[opening.file].locks.retain(|(_, number)| *number != opening.number);
    }

    /// The length of the file.
    pub fn bytes(&self, opening: Opening) -> usize {
        self.files[opening.file].bytes
    }

    /// Makes an empty file so long, of zeroes.
    ///
    /// # Panics
    /// If it is not empty: what is mapped stays where it is.
    pub fn reserve(&mut self, opening: Opening, bytes: usize) {
        let file = &mut self.files[opening.file];
        assert_eq!(file.bytes, 0, "a file gets its length once");
        file.memory = (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect();
        file.bytes = bytes;
    }

    /// Where its memory is.
    pub fn memory(&self, opening: Opening) -> *mut u8 {
        self.files[opening.file].memory.as_ptr().cast_mut().cast()
    }

    /// Returns true if the memory of a file is at this address.
    pub fn is_at(&self, address: usize) -> bool {
        self.files.iter().any(|file| file.bytes > 0 && file.memory.as_ptr().addr() == address)
    }

    /// Locks a byte, unless another opening has its lock. Returns whether this one has it then.
    pub fn try_lock(&mut self, opening: Opening, byte: u64) -> bool {
        if self.is_locked_by_another(opening, byte) {
            return false;
        }
        let locks = &mut self.files[opening.file].locks;
        if !locks.contains(&(byte, opening.number)) {
            locks.push((byte, opening.number));
        }
        true
    }

    /// Gives the lock of a byte back, if this opening has it.
    pub fn unlock(&mut self, opening: Opening, byte: u64) {
        self.files[opening.file].locks.retain(|lock| *lock != (byte, opening.number));
    }

    /// Returns true if another opening has the lock of a byte.
    pub fn is_locked_by_another(&self, opening: Opening, byte: u64) -> bool {
        let locks = &self.files[opening.file].locks;
        locks.iter().any(|(its, number)| *its == byte && *number != opening.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_of_a_path_share_memory_and_exclude_each_other_until_they_are_closed() {
        let mut files = SharedFiles::default();
        let (one, other, third) = (files.open(b"/a"), files.open(b"/a"), files.open(b"/b"));
        files.reserve(one, 20);
        assert_eq!((files.bytes(other), files.bytes(third)), (20, 0));
        assert_eq!(files.memory(one), files.memory(other));
        assert!(files.is_at(files.memory(one).addr()) && !files.is_at(files.memory(third).addr()));
        assert!(files.try_lock(one, 7) && files.try_lock(one, 7) && files.try_lock(third, 7));
        assert!(!files.try_lock(other, 7) && files.try_lock(other, 8));
        files.unlock(other, 7);
        assert!(files.is_locked_by_another(other, 7), "it is not its own");
        files.close(one);
        assert!(files.try_lock(other, 7));
        files.unlock(other, 7);
        assert!(!files.is_locked_by_another(one, 7));
    }
}
