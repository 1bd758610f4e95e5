//! The registry's file: which owner it must have, what is in it, and its mapping.
//!
//! A process that can write to the file can make its members wait or crowd, and a process that can
//! shorten it can end them. So it belongs to one user, only that user may open it, and everything
//! that does not look so is refused: a link, another owner, other rights, a second name, another
//! length, another beginning. A file is made by a process that finds none: it gets its length (with
//! the pages reserved, so that memory cannot run out under the mapping) and then its beginning,
//! under a lock, so that no process sees the half of it.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 to 7 | [`MAGIC`]: the format, and its version; 0 while the file is being made |
//! | 8 to 11 | the CPUs to be divided, in hundredths |
//! | 12 to 15 | places from here on were never taken |
//! | 16 to 23 | when a member last looked for members that are gone, in ms since 1970 |
//! | 64 | [`PLACES`] words, one a place: see `slots.rs` |
//! | 2112 | as many times when its member last showed itself, in ms since 1970 |
//! | 4160 | as many numbers of processes, as they know themselves; for people to read |
//!
//! All of them are atomic, and any bits mean something: a program that scribbles over them spoils
//! the division, and nothing else.

use super::error::RegistryError;
use super::slots::{Locks, PLACES};
use platform::atomic::{AtomicU32, AtomicU64, Ordering};
use platform::file::{File, NOT_NOW};
use platform::memory;
use platform::own_file::OwnFile;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// "manxcpu" and the version of the format, 1.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"manxcpu\x01");

/// What is in the file.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Table {
    magic: AtomicU64,
    pub(super) cpus: AtomicU32,
    pub(super) reached: AtomicU32,
    pub(super) swept_ms: AtomicU64,
    unused: [AtomicU64; 5],
    pub(super) words: [AtomicU64; PLACES],
    pub(super) seen_ms: [AtomicU64; PLACES],
    pub(super) processes: [AtomicU32; PLACES],
}

const BYTES: usize = size_of::<Table>();
const _: () = {
    assert!(std::mem::offset_of!(Table, words) == 64);
    assert!(std::mem::offset_of!(Table, seen_ms) == 2112);
    assert!(std::mem::offset_of!(Table, processes) == 4160);
    assert!(BYTES == 5184);
};

/// Where the locks are: bytes far behind the end, one a place.
const LOCKS_AT: u64 = 1 << 40;
/// The lock of the process that makes the file.
const MAKER_AT: u64 = LOCKS_AT - 1;
/// How often that one is tried, a millisecond apart.
const TRIES: u32 = 1_000;

/// A mapped file.
#[derive(Debug)]
pub(super) struct Mapping {
    table: *const Table,
    identity: (u64, u64),
}

// SAFETY: the table is shared memory that consists of atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Opens and maps the file, and makes it if there is none: for `cpus` hundredths of CPUs.
    pub(super) fn open(path: &Path, cpus: u32) -> Result<Mapping, RegistryError> {
        let file = open(path)?;
        lock(&file, path)?;
        let mapping = Mapping::make(&file, path, cpus);
        // Not by closing the file alone: the mapping keeps the description, and its locks.
        file.unlock_range(MAKER_AT, 1).map_err(|number| RegistryError::Io { path: path.into(), number })?;
        mapping
    }

    /// Maps the file; the caller holds the maker's lock.
    fn make(file: &File, path: &Path, cpus: u32) -> Result<Mapping, RegistryError> {
        let failed = |number| RegistryError::Io { path: path.into(), number };
        let foreign = |why| Err(RegistryError::Foreign { path: path.into(), why });
        let status = file.status().map_err(failed)?;
        match status.bytes {
            0 => file.reserve(BYTES).map_err(failed)?,
            bytes if bytes != BYTES as u64 => return foreign("its length is not a registry's"),
            _ => {}
        }
        let start = memory::map_shared(file, BYTES).map_err(failed)?;
        let mapping = Mapping { table: start.cast::<Table>().cast_const(), identity: status.identity };
        // Relaxed, here and below: the lock orders makers and openers.
        match mapping.table().magic.load(Ordering::Relaxed) {
            MAGIC => {}
            0 => {
                mapping.table().cpus.store(cpus, Ordering::Relaxed);
                mapping.table().magic.store(MAGIC, Ordering::Relaxed);
            }
            _ => return foreign("it begins as no registry of this version does"),
        }
        Ok(mapping)
    }

    pub(super) fn table(&self) -> &Table {
        // SAFETY: mapped as long as `self`, all of it, aligned to a page; any bits are a `Table`.
        // If a process shortens the file, this process ends: see the header for which processes
        // could.
        unsafe { &*self.table }
    }

    /// Opens the file another time, for the locks of one member.
    pub(super) fn locks(&self, path: &Path) -> Result<FileLocks, RegistryError> {
        let file = open(path)?;
        let failed = |number| RegistryError::Io { path: path.into(), number };
        if file.status().map_err(failed)?.identity != self.identity {
            return Err(RegistryError::Replaced { path: path.into() });
        }
        OwnFile::new(file).map(FileLocks).map_err(failed)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and no reference to the table is left.
        let _ = unsafe { memory::unmap(self.table.cast_mut().cast(), BYTES) };
    }
}

/// Opens the file, and refuses what is not the user's own.
fn open(path: &Path) -> Result<File, RegistryError> {
    let failed = |number| RegistryError::Io { path: path.into(), number };
    let foreign = |why| Err(RegistryError::Foreign { path: path.into(), why });
    let name = CString::new(path.as_os_str().as_bytes());
    let Ok(name) = name else { return foreign("its name has a zero in it") };
    let file = File::open_or_create(&name).map_err(failed)?;
    let status = file.status().map_err(failed)?;
    if !status.is_ordinary() {
        return foreign("it is no ordinary file");
    }
    if !status.is_own() {
        return foreign("it belongs to another user");
    }
    if status.mode & 0o077 != 0 {
        return foreign("others may read or write it");
    }
    if status.names > 1 {
        return foreign("it has a second name");
    }
    Ok(file)
}

/// Takes the lock of the process that makes the file: tries for as long as it takes to make one.
fn lock(file: &File, path: &Path) -> Result<(), RegistryError> {
    for _ in 0..TRIES {
        match file.try_lock_range(MAKER_AT, 1) {
            Err(NOT_NOW) => platform::thread::sleep_ns(1_000_000),
            other => return other.map_err(|number| RegistryError::Io { path: path.into(), number }),
        }
    }
    Err(RegistryError::Busy { path: path.into() })
}

/// The locks of the places, by an open file description of one member's own.
#[derive(Debug)]
pub(super) struct FileLocks(OwnFile);

impl FileLocks {
    /// Whether the file still has its name. In a child of the member's process there is no telling,
    /// and no need to.
    pub(super) fn is_named(&self) -> bool {
        self.0.get().is_none_or(|file| file.status().is_ok_and(|status| status.names > 0))
    }
}

impl Locks for FileLocks {
    fn try_lock(&self, place: usize) -> bool {
        self.0.get().is_some_and(|file| file.try_lock_range(LOCKS_AT + place as u64, 1).is_ok())
    }

    fn unlock(&self, place: usize) {
        if let Some(file) = self.0.get() {
            // If it fails, the lock ends with the file.
            let _ = file.unlock_range(LOCKS_AT + place as u64, 1);
        }
    }

    fn is_locked_by_another(&self, place: usize) -> bool {
        // An error says nothing, so no member is taken for gone.
        self.0.get().is_none_or(|file| file.is_range_locked(LOCKS_AT + place as u64, 1).unwrap_or(true))
    }
}
