//! The files of a store in a folder of the file system, for one store at a time.
//!
//! The folder itself is locked (`flock` of its descriptor), so no lock file is left behind, and the kernel frees it when the process
//! ends in whichever way. When the store is closed it is unlocked expressly: a process that was just forked elsewhere in this
//! program has the same descriptor until it begins another program, and would keep the lock.

use super::disk::{Disk, Medium};
use super::failure;
use crate::txn::DataError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A folder that this process alone uses as a disk.
///
/// ```
/// use manx::txn::durable::{Disk, Folder};
///
/// let folder = tempfile::tempdir()?;
/// let disk = Folder::open(folder.path())?;
/// disk.open("a")?.write(b"bytes", 0)?;
/// assert_eq!(disk.names()?, ["a"]);
/// assert!(Folder::open(folder.path()).is_err(), "somebody has it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Open, and locked, for as long as this lives.
    folder: File,
}

impl Folder {
    /// Takes a folder that is there.
    ///
    /// # Errors
    /// It is not there, is no folder, may not be read, or another process has it.
    pub fn open(path: &Path) -> Result<Folder, DataError> {
        let place = path.display();
        let folder = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DataError(format!("{place}: there is no such folder: make it (mkdir), or name another"))
            }
            _ => failure::of_io(&place.to_string(), "opened", &error),
        })?;
        let is_folder = folder.metadata().is_ok_and(|metadata| metadata.is_dir());
        if !is_folder {
            return Err(DataError(format!("{place} is no folder: name a folder for the store's files")));
        }
        match folder.try_lock() {
            Ok(()) => Ok(Folder { path: path.to_owned(), folder }),
            Err(TryLockError::WouldBlock) => Err(DataError(format!(
                "{place} is in use by another process, or by another store of this one: \
                 end that one first, or name another folder"
            ))),
            Err(TryLockError::Error(error)) => Err(failure::of_io(&place.to_string(), "locked", &error)),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What fails here the closing of the descriptor does all the same, a little later at worst.
        let _ = self.folder.unlock();
    }
}

impl Disk for Folder {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let name =
            |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        self.path.read_dir()?.map(name).collect()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Medium>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(self.path.join(name))?;
        Ok(Box::new(file))
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync_all()
    }
}

impl Medium for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    // The length is part of what `fdatasync` makes durable; times and the like are not, and nobody asks for them.
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
