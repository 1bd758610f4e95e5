//! What a transaction has to give back when it ends: its id, its writes, and its place among those
//! that are admitted.
//!
//! A session keeps it, and not the transaction. So what a transaction has written is taken back
//! also if the transaction is forgotten ([`std::mem::forget`]): when its session begins another
//! one, or ends.
//!
//! Invariant: what the transaction wrote is in the versions of the keys in `written`, under its id,
//! until it is committed or taken back.

use super::coordinator;
use super::error::Error;
use super::reads::Reads;
use super::savepoint::{Savepoint, Savepoints, Undo};
use super::store::Inner;
use super::table::Written;
use super::versions::{Before, View};
use crossbeam_epoch::{self as epoch, Guard};

/// What a session keeps of the memory for the keys that a transaction has written.
const WRITTEN_KEPT: usize = 1_024;

/// See [the module](self).
#[derive(Debug)]
pub(super) struct Work {
    pub(super) ids: coordinator::Session,
    pub(super) written: Vec<Written>,
    /// A transaction has begun and is not over: it was admitted, and may read at a timestamp.
    is_open: bool,
    pub(super) read_timestamp: Option<u64>,
    pub(super) savepoints: Savepoints,
    pub(super) reads: Reads,
}

impl Work {
    pub(super) fn new(ids: coordinator::Session) -> Work {
        let savepoints = Savepoints::default();
        let (written, reads) = (Vec::new(), Reads::default());
        Work { ids, written, is_open: false, read_timestamp: None, savepoints, reads }
    }

    /// A transaction begins.
    #[inline]
    pub(super) fn open(&mut self, inner: &Inner) -> Result<(), Error> {
        // The one before was forgotten.
        self.close(inner);
        inner.admit()?;
        self.is_open = true;
        Ok(())
    }

    /// The transaction of this id, whatever it wrote, has an end.
    pub(super) fn end(&mut self, id: u64, inner: &Inner) {
        self.ids.end();
        self.savepoints.end(&mut self.written);
        inner.versions.discard(self.ids.slot(), id, &mut self.written, &inner.collector);
        // A transaction of many keys shall not keep its memory for ever.
        self.written.shrink_to(WRITTEN_KEPT);
    }

    /// The transaction is over, if there is one. What it has written and not committed is gone, and
    /// no transaction sees it.
    #[inline]
    pub(super) fn close(&mut self, inner: &Inner) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        if let Some(id) = self.ids.id() {
            {
                // Not for longer: the end takes it, too.
                let (mut bin, guard) = (inner.versions.bin(self.ids.slot()), &epoch::pin());
                let take_back = |it: &Written| it.row.take_back(id, &mut bin.retired, guard);
                self.written.iter().for_each(take_back);
            }
            self.end(id, inner);
        }
        self.savepoints.end(&mut self.written);
        self.ids.unpin();
        if let Some(timestamp) = self.read_timestamp.take() {
            inner.versions.timestamps.done(timestamp);
        }
        inner.release_admission();
    }

    /// Frees the version of its own that the transaction has written over, if it has.
    pub(super) fn retire(&self, before: &Before<'_>, inner: &Inner, guard: &Guard) {
        if let Some(own) = before.own {
            let retired = &mut inner.versions.bin(self.ids.slot()).retired;
            // SAFETY: it is in the list no more, and is left to this caller alone.
            unsafe { retired.take(own, before.bytes, guard) };
            // It may write over its own as often as it likes.
            retired.free_some();
        }
    }

    /// Takes back what the transaction wrote since this savepoint.
    pub(super) fn rollback_to(&mut self, savepoint: Savepoint, inner: &Inner) -> Result<(), Error> {
        let undo = self.savepoints.since(savepoint).ok_or(Error::NoSavepoint)?;
        let Some(id) = self.ids.id() else { return Ok(()) };
        let guard = &epoch::pin();
        for write in undo.into_iter().rev() {
            match write {
                Undo::Over(key, value) => {
                    // Its own version is the head of the list, so no other transaction writes
                    // there.
                    if let Ok(before) = key.row.write(id, value, View::Newest, guard) {
                        self.retire(&before, inner, guard);
                    }
                }
                Undo::First => {
                    // The savepoints' invariant.
                    let Some(key) = self.written.pop() else { continue };
                    let retired = &mut inner.versions.bin(self.ids.slot()).retired;
                    key.row.take_back(id, retired, guard);
                    self.savepoints.undone(key);
                }
            }
        }
        Ok(())
    }
}
