//! Syncs of the log: one at a time, and none after one that has failed.
//!
//! The kernel tells of a write that failed once. Of two threads that sync a file at once, one would
//! get the error, and the other one would take for durable what is not.
//!
//! 1. One thread at a time syncs a file of the log.
//! 2. After an error that leaves open what is on the disk nothing is synced any more, so nothing is
//!    called durable.
//!
//! Memory orderings: `durable` is increased with release after the sync, and read with acquire. A
//! thread that sees a record called durable sees all that the thread knew that synced it.

use super::disk::Medium;
use super::failure;
use crate::lock::Mutex;
use crate::txn::{DataError, Outcome};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// One of the log's two files, and what people call it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) file: Box<dyn Medium>,
    pub(super) place: String,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Syncs {
    /// Invariant 1.
    alone: Mutex<()>,
    durable: AtomicU64,
    failed: OnceLock<DataError>,
}

impl Syncs {
    /// All records up to this sequence are durable.
    pub(super) fn new(durable: u64) -> Syncs {
        Syncs { alone: Mutex::new(()), durable: AtomicU64::new(durable), failed: OnceLock::new() }
    }

    /// All records up to this sequence are durable.
    #[inline]
    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// All records up to this sequence are durable: a sync or a checkpoint has them.
    pub(super) fn note(&self, sequence: u64) {
        self.durable.fetch_max(sequence, Ordering::AcqRel);
    }

    /// Makes a file durable, with all records up to `last` that were not, unless another thread has
    /// done it.
    pub(super) fn sync(&self, part: &Part, last: u64) -> Result<(), DataError> {
        self.once(part, last, self.durable() < last)
    }

    /// Makes a file durable, whatever is in it.
    pub(super) fn sync_again(&self, part: &Part, last: u64) -> Result<(), DataError> {
        self.once(part, last, true)
    }

    fn once(&self, Part { file, place }: &Part, last: u64, again: bool) -> Result<(), DataError> {
        let _alone = self.alone.lock();
        // Invariant 2.
        self.failed.get().cloned().map_or(Ok(()), Err)?;
        if again || self.durable() < last {
            let synced = file.sync().map_err(|error| failure::of_io(place, "synced", &error));
            self.fails(synced)?;
            self.note(last);
        }
        Ok(())
    }

    /// Why nothing is changed any more.
    pub(super) fn failed(&self) -> Option<&DataError> {
        self.failed.get()
    }

    /// Remembers an error that leaves open what is on the disk.
    pub(super) fn fails<T>(&self, result: Result<T, DataError>) -> Result<T, DataError> {
        result.map_err(|why| {
            let error = if why.outcome() == Outcome::Unknown {
                why
            } else {
                let text = format!("{why} (it is not known whether the changes were made)");
                DataError::new(text).with_outcome(Outcome::Unknown)
            };
            self.failed.get_or_init(|| error.clone());
            error
        })
    }
}
