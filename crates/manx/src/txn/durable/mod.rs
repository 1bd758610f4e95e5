//! A durable data component: what was applied with `sync` survives the end of the process, of the
//! system, and the loss of power.
//!
//! ```text
//!   append ──► log, above the base ──► return: seen, and in its place
//!   wait ────► group ──► sync ──► return: durable                                    get, scan ──► what is above, base
//!              (one leader for all that came)
//!              each time that a file is full ──► checkpoint, by another thread: what was above is in the base
//! ```
//!
//! A batch goes to the log's file (`record.rs`, `log.rs`), and is kept above the base, where
//! readers find it (`memtable.rs`). Many threads' batches become durable with one sync (`group.rs`,
//! `syncs.rs`). The base (`base.rs`), an ordered tree in a file, follows with checkpoints, beside
//! the batches (`writer.rs`). After a crash the base is as at the last checkpoint, and the log is
//! read again. Files are reached through `disk.rs`, in a folder (`folder.rs`) that a marker tells
//! from others (`marker.rs`), and in which records are known by a secret, since values may be
//! anything (`secret.rs`). Why this engine, and why a log of its own: see the README beside this
//! room's files.
//!
//! Invariants:
//! 1. Checkpoint and log together contain every acknowledged batch, in order, at each moment; and
//!    each other batch whole or not at all, and none without those before it.
//! 2. A batch is in the log's file before readers see it, and readers see it before its `append`
//!    returns. It is durable, if that was asked for, when its `wait` returns.
//! 3. After an error that leaves open what is on the disk (a sync that failed above all: what it
//!    had to write may be gone from memory and not be on the disk, and the next sync would not
//!    notice) nothing is changed any more. Opening the store again finds out what is there.

mod backend;
mod backup;
mod base;
mod disk;
mod failure;
mod folder;
#[cfg(test)]
mod fuzz;
mod group;
mod log;
mod marker;
mod memtable;
mod record;
mod secret;
mod syncs;
mod writer;

// For this package's tests, which put other files below a store, and for the package `serve`, which
// makes its folder.
#[doc(hidden)]
pub use disk::{Disk, Medium};
#[doc(hidden)]
pub use folder::Folder;

pub use backup::Backup;

use super::{Batch, Bounds, Data, DataError, Entry, Limits, Recovered, Value};
use base::{Base, Position};
use log::Log;
use marker::{Marker, State};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use syncs::{Part, Syncs};
use writer::Writer;

const BASE: &str = "data.redb";
const LOGS: [&str; 2] = ["log", "log2"];

/// How a durable store works.
///
/// ```
/// use manx::txn::durable::{Durable, DurableOptions};
///
/// let folder = tempfile::tempdir()?;
/// let careful = DurableOptions::new().log_bytes(32 << 20).check(true);
/// Durable::open(folder.path(), careful)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct DurableOptions {
    log_bytes: usize,
    cache_bytes: usize,
    check: bool,
}

impl DurableOptions {
    /// How long a file of the log may be: the length of a record's changes has 32 bits.
    pub const LOG_BYTES: RangeInclusive<usize> = 4 << 10..=1 << 30;

    /// The defaults.
    pub const fn new() -> DurableOptions {
        DurableOptions { log_bytes: 8 << 20, cache_bytes: 256 << 20, check: false }
    }

    /// Sets the length of each of the log's two files: a checkpoint is made each time that one is
    /// full, beside the commits, which go on in the other one. Opening after a crash reads at most
    /// both again. What both have is kept in memory as well. 4 KiB to 1 GiB
    /// ([`DurableOptions::LOG_BYTES`]); the default is 8 MiB.
    pub const fn log_bytes(mut self, bytes: usize) -> DurableOptions {
        self.log_bytes = bytes;
        self
    }

    /// Sets how much of the base is kept in memory; the default is 256 MiB.
    pub const fn cache_bytes(mut self, bytes: usize) -> DurableOptions {
        self.cache_bytes = bytes;
        self
    }

    /// Sets whether opening reads everything and compares all checksums. By default it does not.
    pub const fn check(mut self, check: bool) -> DurableOptions {
        self.check = check;
        self
    }
}

impl Default for DurableOptions {
    fn default() -> DurableOptions {
        DurableOptions::new()
    }
}

/// A durable ordered store in a folder.
///
/// ```
/// use manx::txn::durable::{Durable, DurableOptions};
/// use manx::txn::{Batch, Change, Data};
///
/// let folder = tempfile::tempdir()?;
/// let store = Durable::open(folder.path(), DurableOptions::default())?;
/// store.apply(Batch::new(&[Change::Put { key: (*b"k").into(), value: (*b"v").into() }], true))?;
/// drop(store);
/// let store = Durable::open(folder.path(), DurableOptions::default())?;
/// assert_eq!(store.get(b"k")?.as_deref(), Some(&b"v"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Durable {
    writer: Arc<Writer>,
    /// The thread that makes checkpoints; there until the store is dropped.
    checkpointer: Option<JoinHandle<()>>,
}

impl Durable {
    /// Opens the store in a folder, and makes one if the folder is empty.
    ///
    /// # Errors
    /// The folder is not there, holds something else, is in use, cannot be read or written, or is
    /// damaged.
    pub fn open(folder: impl AsRef<Path>, options: DurableOptions) -> Result<Durable, DataError> {
        Durable::open_on(Box::new(Folder::open(folder.as_ref())?), options)
    }

    /// Opens the store on a disk, and makes one if it is empty: [`Durable::open`] for files of
    /// another kind.
    ///
    /// # Errors
    /// As [`Durable::open`].
    // For this package's tests.
    #[doc(hidden)]
    pub fn open_on(disk: Box<dyn Disk>, options: DurableOptions) -> Result<Durable, DataError> {
        let bytes_max =
            options.log_bytes.clamp(*DurableOptions::LOG_BYTES.start(), *DurableOptions::LOG_BYTES.end());
        let place = disk.place();
        let (marker, state) = Marker::open(&*disk, &[BASE, LOGS[0], LOGS[1]])?;
        let open = |name: &str| {
            let place = format!("{place}/{name}");
            let opened = disk.open(name).and_then(|file| match state {
                State::New => file.set_length(0).map(|()| (file, 0)),
                State::Ready => file.length().map(|length| (file, length)),
            });
            match opened {
                Ok((_, 0)) if name == BASE && state == State::Ready => {
                    Err(failure::damaged(&place, "it is empty"))
                }
                Ok((file, _)) => Ok((file, place)),
                Err(error) => Err(failure::of_io(&place, "opened", &error)),
            }
        };
        let log = |name| open(name).map(|(file, place)| Part { file, place });
        let ((file, base_place), log) = (open(BASE)?, [log(LOGS[0])?, log(LOGS[1])?]);
        let (base, at) = Base::open(file, base_place, options.cache_bytes, options.check)?;
        let Position { applied, generation, mut known } = at;
        let mut replayed = applied;
        let applied = log::replay(&log, marker.secret(), generation, applied, |head, changes| {
            known.note(&Batch {
                id: head.id,
                timestamp: head.timestamp,
                oldest_timestamp: head.oldest_timestamp,
                ..Batch::default()
            });
            replayed += 1;
            base.add(replayed, &changes);
        })?;
        // From here on the log's records count no more, and new ones have a generation of their
        // own.
        let position = Position { applied, generation: generation + 1, known };
        base.freeze();
        base.checkpoint(position)?;
        if state == State::New {
            let synced = log.iter().try_for_each(|part| part.file.sync()).and_then(|()| disk.sync());
            synced.map_err(|error| failure::of_io(&place, "synced", &error))?;
            marker.make_ready()?;
        }
        let syncs = Arc::new(Syncs::new(applied));
        let log = Log::new(log, marker.secret(), bytes_max, position.generation, Arc::clone(&syncs));
        let writer = Arc::new(Writer::new(log, syncs, base, position, place, disk));
        let its = Arc::clone(&writer);
        let started =
            thread::Builder::new().name("manx-checkpoint".into()).spawn(move || its.make_checkpoints());
        let checkpointer = started.map_err(|error| {
            DataError::new(format!(
                "{}: no thread can be started for checkpoints: {error}: end some, or raise the limit",
                writer.place
            ))
        })?;
        Ok(Durable { writer, checkpointer: Some(checkpointer) })
    }
}

impl Data for Durable {
    fn recover(&self) -> Result<Recovered, DataError> {
        self.writer.recover()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        self.writer.base.get(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, DataError> {
        keys.iter().map(|key| self.writer.base.get(key)).collect()
    }

    fn scan(&self, bounds: Bounds<'_>, descending: bool, limit: usize) -> Result<Vec<Entry>, DataError> {
        self.writer.base.scan(bounds, descending, limit)
    }

    fn append(&self, batch: Batch<'_>) -> Result<u64, DataError> {
        self.writer.append(&batch)
    }

    fn wait(&self, place: u64) -> Result<(), DataError> {
        self.writer.wait(place)
    }

    fn durable(&self) -> u64 {
        self.writer.durable()
    }

    fn limits(&self) -> Limits {
        // The engine's, and those of a length in a record.
        Limits { key_bytes: 1 << 30, value_bytes: 1 << 31, ..Limits::NONE }
    }

    fn checkpoint(&self) -> Result<(), DataError> {
        self.writer.checkpoint()
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        self.writer.close();
        // A panic of it was printed where it happened, and has left the log as it is.
        let ended = self.checkpointer.take().map(JoinHandle::join);
        if let Some(Ok(())) = ended {
            self.writer.finish();
        }
    }
}

impl fmt::Debug for Durable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Durable").field("place", &self.writer.place).finish_non_exhaustive()
    }
}
