//! The files of a store in a folder of the file system, for one store at a time.
//!
//! The folder itself is locked (`flock` of its descriptor), so no lock file is left behind, and the
//! kernel frees it when the process ends in whichever way. When the store is closed it is unlocked
//! expressly: a process that was just forked elsewhere in this program has the same descriptor
//! until it begins another program, and would keep the lock.
//!
//! A folder's own name is in the folder that it is in, and is durable when that one is synced. A
//! program that has just made it (`mkdir`) rarely does that; so it is made durable along with the
//! names of the files.

use super::disk::{Disk, Medium};
use super::failure;
use crate::txn::DataError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A folder that this process alone uses as a disk.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Open, and locked, for as long as this lives.
    folder: File,
    /// The folder that it is in, if that has its name.
    parent: Option<File>,
}

impl Folder {
    /// Makes a folder if it is not there, and the folders that it is in; and makes their names
    /// durable.
    ///
    /// # Errors
    /// It cannot be made, or something else is in its place.
    pub fn make(path: &Path) -> io::Result<()> {
        make(path, &mut |parent| File::open(parent)?.sync_all())
    }

    /// Takes a folder that is there.
    ///
    /// # Errors
    /// It is not there, is no folder, may not be read, or another process has it.
    pub fn open(path: &Path) -> Result<Folder, DataError> {
        let place = path.display();
        let folder = File::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                DataError::new(format!("{place}: there is no such folder: make it (mkdir), or name another"))
            }
            _ => failure::of_io(&place.to_string(), "opened", &error),
        })?;
        let is_folder = folder.metadata().is_ok_and(|metadata| metadata.is_dir());
        if !is_folder {
            return Err(DataError::new(format!("{place} is no folder: name a folder for the store's files")));
        }
        match folder.try_lock() {
            Ok(()) => {
                let parent = parent(path, &folder);
                let parent = parent.map_err(|error| failure::of_io(&place.to_string(), "opened", &error))?;
                Ok(Folder { path: path.to_owned(), folder, parent })
            }
            Err(TryLockError::WouldBlock) => Err(DataError::new(format!(
                "{place} is in use by another process, or by another store of this one: \
                 end that one first, or name another folder"
            ))),
            Err(TryLockError::Error(error)) => Err(failure::of_io(&place.to_string(), "locked", &error)),
        }
    }
}

fn make(path: &Path, sync: &mut impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut made = fs::create_dir(path);
    if let Err(error) = &made
        && error.kind() == io::ErrorKind::NotFound
        && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
    {
        make(parent, sync)?;
        made = fs::create_dir(path);
    }
    match made {
        Ok(()) => sync(&path.join("..")),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The folder that has this one's name; none where another file system begins, or where it is not
/// ours to read: then another user made this one.
fn parent(path: &Path, folder: &File) -> io::Result<Option<File>> {
    match File::open(path.join("..")) {
        Ok(parent) if parent.metadata()?.dev() == folder.metadata()?.dev() => Ok(Some(parent)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(error),
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
        self.folder.sync_all()?;
        self.parent.as_ref().map_or(Ok(()), File::sync_all)
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

    // The length is part of what `fdatasync` makes durable; times and the like are not, and nothing
    // here needs them.
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a file that cannot be synced, so that a caller that tries gets an error.
    fn unsyncable() -> File {
        File::open("/dev/null").expect("there")
    }

    #[test]
    fn to_sync_a_file_is_to_sync_it() {
        let folder = tempfile::tempdir().expect("a folder");
        Medium::sync(&File::create(folder.path().join("a")).expect("made")).expect("synced");
        assert!(Medium::sync(&unsyncable()).is_err());
    }

    #[test]
    fn to_sync_a_folder_is_to_sync_it_and_the_one_it_is_in() {
        let temporary = tempfile::tempdir().expect("a folder");
        let open = || Folder::open(temporary.path()).expect("taken");
        Disk::sync(&open()).expect("synced");
        let of = |file: &File| file.metadata().map(|of| (of.dev(), of.ino())).expect("told");
        let outer = File::open(temporary.path().parent().expect("it is in one")).expect("opened");
        if of(&outer).0 == of(&open().folder).0 {
            assert_eq!(open().parent.as_ref().map(of), Some(of(&outer)));
        }
        let itself = Folder { path: temporary.path().into(), folder: unsyncable(), parent: None };
        assert!(Disk::sync(&itself).is_err());
        let mut outer = open();
        outer.parent = Some(unsyncable());
        assert!(Disk::sync(&outer).is_err());
    }

    #[test]
    fn the_name_of_each_folder_that_is_made_is_synced() {
        let temporary = tempfile::tempdir().expect("a folder");
        let path = temporary.path().join("a/b/../c");
        let mut synced = Vec::new();
        let mut sync = |parent: &Path| {
            synced.push(parent.canonicalize()?);
            Ok(())
        };
        make(&path, &mut sync).expect("made");
        make(&path, &mut sync).expect("there");
        let root = temporary.path().canonicalize().expect("there");
        assert_eq!(synced, [root.clone(), root.join("a"), root.join("a")], "a, then b and c in it");
        let mut fails = |_: &Path| Err(io::Error::other("I/O error"));
        assert!(make(&temporary.path().join("d"), &mut fails).is_err());
        fs::write(temporary.path().join("file"), "").expect("written");
        for taken in ["file", "file/folder"] {
            assert!(Folder::make(&temporary.path().join(taken)).is_err(), "{taken}");
        }
    }
}
