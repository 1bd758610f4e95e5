//! What changes an open store: batches, and the checkpoints beside them.
//!
//! A batch is written to the log, and is above the tree for readers: no sync and no tree is on the
//! way. A checkpoint takes a tenth of a second and more, and no batch waits for that:
//!
//! ```text
//! log            7 8 9 │ sealed                          │ free again
//! log2                 │ 10 11 12 13 14 15 …
//! above          7 8 9 │ frozen                          │ gone
//! above                │ 10 11 12 13 14 15 …             │
//! the tree      … 6    │ 7 to 9 become durable           │ … 9
//!                    begun
//! ```
//!
//! The *checkpointer* is a thread of its own, which sleeps unless a checkpoint was begun. A thread
//! that finds the current file full begins a checkpoint, and goes on in the other file. Only a
//! thread that fills that file as well, before the checkpoint is made, waits for it. So does a
//! thread with a batch that is longer than a file; such a batch becomes durable with a checkpoint
//! of its own.
//!
//! Invariants:
//! 1. The log is changed by the thread that has the mutex, and so is what is above the tree. A sync
//!    needs no mutex: batches are written while one runs.
//! 2. While no checkpoint runs, the tree and what is above it are all batches, nothing is frozen,
//!    and the file that is not the current one is free.
//! 3. A checkpoint runs from the sealing of a file until the tree is durable with all of that file;
//!    or until it has failed, after which nothing is changed any more.

use super::base::{Base, Position};
use super::disk::Disk;
use super::group::Group;
use super::log::{Log, Refused};
use super::record;
use super::syncs::Syncs;
use crate::lock::{Condvar, Mutex, MutexGuard};
use crate::txn::{Batch, DataError, Outcome, Recovered};
use std::sync::Arc;

/// So many takeovers are told apart within one opening of the store.
const TAKEOVERS_BITS: u32 = 16;

/// See [the module](self).
pub(super) struct Writer {
    state: Mutex<State>,
    /// A checkpoint was begun, or is made, or the store is being closed.
    changed: Condvar,
    syncs: Arc<Syncs>,
    group: Group,
    pub(super) base: Base,
    generation: u64,
    pub(super) place: String,
    /// Last, so that the folder is ours until the files are closed.
    _disk: Box<dyn Disk>,
}

struct State {
    log: Log,
    known: Recovered,
    /// This checkpoint runs.
    running: Option<Position>,
    /// The number of checkpoints that were begun, and the number that are made or have failed.
    begun: u64,
    ended: u64,
    closing: bool,
}

impl Writer {
    /// The writer of a store that has a checkpoint of all at this position; the log is as if empty.
    pub(super) fn new(
        log: Log,
        syncs: Arc<Syncs>,
        base: Base,
        position: Position,
        place: String,
        disk: Box<dyn Disk>,
    ) -> Writer {
        let Position { applied, generation, known } = position;
        let state = State { log, known, running: None, begun: 0, ended: 0, closing: false };
        let group = Group::new(applied, Arc::clone(&syncs));
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Writer { state, changed, syncs, group, base, generation, place, _disk: disk }
    }

    /// From now on a batch of an earlier owner is refused.
    pub(super) fn recover(&self) -> Result<Recovered, DataError> {
        let mut state = self.usable(self.state.lock())?;
        let first = self.generation << TAKEOVERS_BITS;
        state.known.epoch = (state.known.epoch + 1).max(first);
        Ok(state.known)
    }

    /// Writes a batch behind the others, and shows it to readers. Returns its place.
    pub(super) fn append(&self, batch: &Batch<'_>) -> Result<u64, DataError> {
        let mut state = self.usable(self.state.lock())?;
        let bytes = record::bytes_of(batch.changes);
        if !state.log.could_hold(bytes) {
            return self.append_past_the_log(batch, self.until_none_runs(state)?);
        }
        while !state.log.has_room(bytes) {
            // Another may have begun one when this one is made.
            state = self.until_none_runs(state)?;
            if !state.log.has_room(bytes) {
                self.begin(&mut state)?;
            }
        }
        // A thread that waited above may have lost the store to another owner.
        self.owns(&state, batch)?;
        match state.log.append(batch) {
            Ok(sequence) => {
                state.known.note(batch);
                self.base.add(sequence, batch.changes);
                self.group.append(sequence, bytes, batch.sync);
                Ok(sequence)
            }
            Err(Refused::Full(error)) => Err(error),
            Err(Refused::Unknown(error)) => self.syncs.fails(Err(error)),
        }
    }

    /// No checkpoint runs.
    fn append_past_the_log(
        &self,
        batch: &Batch<'_>,
        mut state: MutexGuard<'_, State>,
    ) -> Result<u64, DataError> {
        self.owns(&state, batch)?;
        state.log.skip();
        state.known.note(batch);
        let sequence = state.log.sequence();
        self.base.add(sequence, batch.changes);
        self.base.freeze();
        self.syncs.fails(self.base.checkpoint(self.position(&state)))?;
        state.log.restart();
        self.group.append(sequence, 0, batch.sync);
        Ok(sequence)
    }

    fn owns(&self, state: &State, batch: &Batch<'_>) -> Result<(), DataError> {
        if batch.epoch >= state.known.epoch {
            return Ok(());
        }
        let text = format!("{}: another store of this process has taken it over: use that one", self.place);
        Err(DataError::new(text).with_outcome(Outcome::Fenced))
    }

    /// Returns once what has this place is durable, if it is to be.
    pub(super) fn wait(&self, place: u64) -> Result<(), DataError> {
        self.group.wait(place, |covers| {
            let (part, last) = {
                let state = self.state.lock();
                (state.log.current(), state.log.sequence())
            };
            covers(last);
            self.syncs.sync(&part, last)
        })
    }

    /// Up to which place all is durable.
    pub(super) fn durable(&self) -> u64 {
        self.syncs.durable()
    }

    /// Makes a checkpoint of what was committed before.
    pub(super) fn checkpoint(&self) -> Result<(), DataError> {
        let mut state = self.until_none_runs(self.state.lock())?;
        self.begin(&mut state)?;
        let own = state.begun;
        while state.ended < own {
            self.changed.wait(&mut state);
        }
        self.usable(state).map(drop)
    }

    fn position(&self, state: &State) -> Position {
        Position { applied: state.log.sequence(), generation: self.generation, known: state.known }
    }

    /// Begins one; none runs.
    fn begin(&self, state: &mut State) -> Result<(), DataError> {
        self.syncs.fails(state.log.seal())?;
        state.running = Some(self.position(state));
        state.begun += 1;
        self.base.freeze();
        self.changed.notify_all();
        Ok(())
    }

    /// What the checkpointer does, until the store is closed.
    pub(super) fn make_checkpoints(&self) {
        let mut state = self.state.lock();
        loop {
            match state.running {
                Some(position) => {
                    drop(state);
                    // If it fails, readers still see what is above.
                    let _ = self.syncs.fails(self.base.checkpoint(position));
                    state = self.state.lock();
                    state.running = None;
                    state.ended += 1;
                    self.changed.notify_all();
                }
                None if state.closing => return,
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Tells the checkpointer to end.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.changed.notify_all();
    }

    /// A last checkpoint, after the checkpointer has ended.
    pub(super) fn finish(&self) {
        let state = self.state.lock();
        if state.running.is_some() || self.syncs.failed().is_some() {
            return;
        }
        // It makes the next opening quick, no more: what fails here the log still has.
        if !state.log.is_empty() {
            self.base.freeze();
        }
        if state.log.is_empty() || self.base.checkpoint(self.position(&state)).is_ok() {
            self.base.finish();
        }
    }

    fn until_none_runs<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, DataError> {
        while state.running.is_some() {
            self.changed.wait(&mut state);
        }
        self.usable(state)
    }

    fn usable<'a>(&self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>, DataError> {
        match self.syncs.failed() {
            None => Ok(state),
            Some(why) => Err(DataError::new(format!(
                "{} takes no changes since an earlier error, and nothing was changed: open it again. The error was: {why}",
                self.place
            ))),
        }
    }
}
