//! Files that a fork's child does not keep: all of them, because no program forks here.

use crate::file::File;

/// A file that is its process's own.
#[derive(Debug)]
pub struct OwnFile(File);

impl OwnFile {
    /// Makes the file the process's own.
    ///
    /// # Errors
    /// None.
    pub fn new(file: File) -> Result<OwnFile, i32> {
        Ok(OwnFile(file))
    }

    /// The file.
    pub fn get(&self) -> Option<&File> {
        Some(&self.0)
    }
}
