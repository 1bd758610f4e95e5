//! A copy of a store that is in use, as a durable store of its own.
//!
//! 1. The copy is of one moment: one snapshot reads all of it. What commits meanwhile is not in it,
//!    and is not held up.
//! 2. The folder has its name only once the copy is whole, is durable, and was read back from its
//!    files with the same entries. Until then it has another name beside that one. So a copy that
//!    was cut off is not taken for one.
//!
//! To restore it is to open it. It works for a store over any data component, or none.

use super::folder::Folder;
use super::{Durable, DurableOptions, failure};
use crate::txn::{Batch, Change, Data, DataError, Error, Isolation, Store};
use std::fs::{self, File};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

/// The changes that are appended at once: about this number of bytes.
const BATCH_BYTES: usize = 1 << 20;
/// The number of entries that are read back at once.
const READ_AT_ONCE: usize = 1_000;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The number of entries.
    pub entries: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
}

/// Entries in their order, counted and summed up.
#[derive(Default)]
struct Sum {
    so_far: Backup,
    crc: crc32fast::Hasher,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.so_far.entries += 1;
        self.so_far.bytes += (key.len() + value.len()) as u64;
        for part in [key, value] {
            self.crc.update(&part.len().to_le_bytes());
            self.crc.update(part);
        }
    }

    fn end(self) -> (Backup, u32) {
        (self.so_far, self.crc.finalize())
    }
}

impl Store {
    /// Copies all entries, as they are at one moment, to a new durable store in `folder`, while
    /// other threads go on. The folder must not be there, or be empty; folders above it are made.
    /// It is there only once the copy is whole, durable, and read back. To restore it, open it with
    /// [`Durable::open`].
    ///
    /// While the copy is made, versions that its snapshot needs are kept in memory.
    ///
    /// ```
    /// use manx::txn::durable::{Durable, DurableOptions};
    /// use manx::txn::{Isolation, Options, Store};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.run(Isolation::Snapshot, |it| it.put(b"key", b"value"))?;
    /// let folder = tempfile::tempdir()?;
    /// let copy = folder.path().join("monday");
    /// store.backup(&copy)?;
    /// store.run(Isolation::Snapshot, |it| it.put(b"key", b"later"))?;
    ///
    /// let restored = Store::open(Options::default(), Box::new(Durable::open(copy, DurableOptions::new())?))?;
    /// let value = restored.run(Isolation::Snapshot, |it| it.get(b"key"))?;
    /// assert_eq!(value.as_deref(), Some(&b"value"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The folder is there with something in it, or cannot be made or written; or the store cannot
    /// be read.
    pub fn backup(&self, folder: impl AsRef<Path>) -> Result<Backup, Error> {
        self.backup_with(folder, |_| ControlFlow::Continue(()))
    }

    /// As [`Store::backup`], and tells `progress` again and again how much it has copied, until
    /// that breaks off.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store};
    /// use std::ops::ControlFlow::{Break, Continue};
    ///
    /// let store = Store::in_memory(Options::default());
    /// store.run(Isolation::Snapshot, |it| it.put(b"key", b"value"))?;
    /// let folder = tempfile::tempdir()?;
    /// let copy = folder.path().join("copy");
    /// let stopped = store.backup_with(&copy, |so_far| if so_far.entries > 0 { Break(()) } else { Continue(()) });
    /// assert!(stopped.is_err() && !copy.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::backup`], and if `progress` has broken off.
    pub fn backup_with(
        &self,
        folder: impl AsRef<Path>,
        mut progress: impl FnMut(Backup) -> ControlFlow<()>,
    ) -> Result<Backup, Error> {
        let folder = folder.as_ref();
        let place = folder.display().to_string();
        let failed = |done: &str, error: &std::io::Error| Error::from(failure::of_io(&place, done, error));
        let name = folder.file_name().ok_or_else(|| {
            DataError::new(format!("{place}: a copy needs a folder of its own: add a name to it"))
        })?;
        if fs::read_dir(folder).is_ok_and(|mut has| has.next().is_some()) {
            let why =
                format!("{place} is not empty: name a folder that is not there, or remove what is in it");
            return Err(DataError::new(why).into());
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        Folder::make(parent).map_err(|error| failed("made", &error))?;
        let partial = parent.join(format!(".{}.{}.partial", name.display(), std::process::id()));
        fs::create_dir(&partial).map_err(|error| failed("made", &error))?;
        let copied = self.copy(&partial, &mut progress).and_then(|copied| {
            fs::rename(&partial, folder).map_err(|error| failed("given its name", &error))?;
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| failed("synced", &error)).map(|()| copied)
        });
        if copied.is_err() {
            // What is left takes room, and does no other harm.
            let _ = fs::remove_dir_all(&partial);
        }
        copied
    }

    /// Makes the copy in a folder, which is empty, and reads it back.
    fn copy(
        &self,
        folder: &Path,
        progress: &mut impl FnMut(Backup) -> ControlFlow<()>,
    ) -> Result<Backup, Error> {
        let copy = Durable::open(folder, DurableOptions::new())?;
        let mut sum = Sum::default();
        let mut session = self.session()?;
        let mut it = session.begin(Isolation::Snapshot)?;
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut append = |changes: &[Change], so_far| {
            // No history is copied, so the copy answers for nothing before its newest commit.
            // (After the snapshot there may have been later ones.)
            let timestamp = self.0.versions.timestamps.newest();
            let batch = Batch::new(changes, false);
            copy.append(Batch { timestamp, oldest_timestamp: timestamp, ..batch })?;
            let stopped = || DataError::new("the copy was broken off, and nothing is left of it");
            if progress(so_far).is_break() { Err(stopped()) } else { Ok(()) }
        };
        for entry in it.scan::<[u8], _>(..) {
            let (key, value) = entry?;
            sum.add(&key, &value);
            bytes += key.len() + value.len();
            changes.push(Change::Put { key, value });
            if bytes >= BATCH_BYTES {
                append(&changes, sum.so_far)?;
                (changes, bytes) = (Vec::new(), 0);
            }
        }
        append(&changes, sum.so_far)?;
        // What it has read is durable in the store, too, when this returns.
        it.commit()?;
        copy.checkpoint()?;
        drop(copy);
        let expected = sum.end();
        let found = read_back(folder)?;
        if found != expected {
            let place = folder.display().to_string();
            let what = format!("it has {} of {} entries, or others", found.0.entries, expected.0.entries);
            return Err(failure::damaged(&place, &what).into());
        }
        Ok(found.0)
    }
}

/// Opens a copy with all its checksums, and sums up what it has.
fn read_back(folder: &Path) -> Result<(Backup, u32), DataError> {
    let copy = Durable::open(folder, DurableOptions::new().check(true))?;
    let (mut sum, mut from) = (Sum::default(), Bound::Unbounded);
    loop {
        let from_bytes = from.as_ref().map(|key: &crate::txn::Value| &**key);
        let found = copy.scan((from_bytes, Bound::Unbounded), false, READ_AT_ONCE)?;
        found.iter().for_each(|(key, value)| sum.add(key, value));
        match found.last() {
            Some((last, _)) => from = Bound::Excluded(last.clone()),
            None => return Ok(sum.end()),
        }
    }
}
