//! A file that stays open in a program that may close it behind our back.
//!
//! Daemons close every descriptor that they do not know, and the next file that the program opens
//! has the number of one of ours. To read that file disturbs no other code, but to believe it would
//! be wrong, and to close it worse. So a file is known by its identity, its device and its number
//! there.
//!
//! Invariants:
//! 1. A descriptor is closed only if it is still that of the file that was opened.

use super::files::Files;
use platform::file::File;

/// A file that was opened here, as long as its descriptor is left alone.
#[derive(Debug)]
pub(super) struct Open {
    /// Empty only while it is dropped.
    file: Option<File>,
    identity: (u64, u64),
}

/// A file that was there is no more, or holds something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileChanged;

impl Open {
    /// Opens a file by its absolute path.
    ///
    /// # Errors
    /// The kernel's error number.
    pub(super) fn new(files: &Files, path: &[u8]) -> Result<Open, i32> {
        let file = files.open(path)?;
        let identity = file.status()?.identity;
        Ok(Open { file: Some(file), identity })
    }

    /// The file's text, as far as it fits. One system call.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub(super) fn read<'a>(&self, into: &'a mut [u8]) -> Result<&'a [u8], FileChanged> {
        let file = self.file.as_ref().ok_or(FileChanged)?;
        file.read_once_at(into, 0).map(|length| &into[..length]).map_err(|_| FileChanged)
    }

    /// The file itself.
    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Whether the descriptor is still that of the file that was opened.
    pub(super) fn is_ours(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.status().is_ok_and(|it| it.identity == self.identity))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let ours = self.is_ours();
        match self.file.take() {
            Some(file) if ours => drop(file),
            // By Invariant 1.
            Some(file) => drop(file.into_descriptor()),
            None => {}
        }
    }
}
