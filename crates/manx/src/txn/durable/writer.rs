//! What changes an open store: commits, and the checkpoints beside them.
//!
//! A checkpoint takes a tenth of a second and more, and the engine takes no changes meanwhile. No
//! commit waits for that:
//!
//! ```text
//! log            7 8 9 │ sealed                                        │ free again
//! log2                 │ 10 11 12 13 14 15 …
//! base, above          │ 10 11 12 13 14 15                             │ nothing any more
//! base, the tree  … 9  │ 1 to 9 become durable ► 10 to 13 ► 14 ► 15    │
//!                    begun                               under the mutex, when little is left
//! ```
//!
//! The *checkpointer* is a thread of its own, which sleeps unless a checkpoint was begun. A thread
//! that finds the current file full begins a checkpoint, and goes on in the other file. Only a
//! thread that fills that file as well, before the checkpoint is made, waits for it. So does a
//! thread with a group that is longer than a file; such a group becomes durable with a checkpoint
//! of its own.
//!
//! Invariants:
//! 1. The log is changed by the thread that has the mutex; the base's tree likewise, unless a
//!    checkpoint *runs*: then by the checkpointer alone, and commits are made above the tree, and
//!    remembered in `above` for it.
//! 2. While none runs, the tree has all groups, nothing is above it, and the file that is not the
//!    current one is free.
//! 3. A checkpoint runs from the sealing of a file until the tree is durable with all of that file,
//!    and has all that was committed since; or until it has failed, after which nothing is changed
//!    any more.

use super::base::{Base, Position};
use super::disk::Disk;
use super::log::{Log, Refused};
use super::record;
use crate::lock::{Condvar, Mutex, MutexGuard};
use crate::txn::{Change, DataError, Outcome};

/// So few changes are put into the tree while commits wait; a millisecond's.
const FEW: usize = 256;
/// Or whatever is left after this number of steps; each step has what came during the step before.
const STEPS_MAX: u32 = 32;

/// See [the module](self).
pub(super) struct Writer {
    state: Mutex<State>,
    /// A checkpoint was begun, or is made, or the store is being closed.
    changed: Condvar,
    pub(super) base: Base,
    generation: u64,
    pub(super) place: String,
    /// Last, so that the folder is ours until the files are closed.
    _disk: Box<dyn Disk>,
}

struct State {
    log: Log,
    /// A checkpoint of all up to this sequence runs.
    running: Option<u64>,
    /// What was committed since it was begun, and is not in the tree.
    above: Vec<Change>,
    /// The number of checkpoints that were begun, and the number that are made or have failed.
    begun: u64,
    ended: u64,
    closing: bool,
    /// Why nothing can be changed any more.
    broken: Option<DataError>,
}

impl Writer {
    pub(super) fn new(log: Log, base: Base, generation: u64, place: String, disk: Box<dyn Disk>) -> Writer {
        let state =
            State { log, running: None, above: Vec::new(), begun: 0, ended: 0, closing: false, broken: None };
        Writer { state: Mutex::new(state), changed: Condvar::new(), base, generation, place, _disk: disk }
    }

    /// Makes the changes of some batches, in order.
    pub(super) fn commit(&self, batches: &[&[Change]], sync: bool) -> Result<(), DataError> {
        let mut state = self.usable(self.state.lock())?;
        let bytes = record::bytes_of(batches);
        if !state.log.could_hold(bytes) {
            let mut state = self.until_none_runs(state)?;
            state.log.skip();
            let position = Position { applied: state.log.sequence(), generation: self.generation };
            let made = self.base.checkpoint(batches, position);
            state.break_at(made)?;
            state.log.restart();
            return Ok(());
        }
        while !state.log.has_room(bytes) {
            // Another may have begun one when this one is made.
            state = self.until_none_runs(state)?;
            if !state.log.has_room(bytes) {
                self.begin(&mut state)?;
            }
        }
        match state.log.append(batches, sync) {
            Ok(()) if state.running.is_some() => {
                self.base.apply_above(state.log.sequence(), batches);
                state.above.extend(batches.iter().copied().flatten().cloned());
                Ok(())
            }
            Ok(()) => {
                // It is in the log, and would come back: what the base has may not differ from
                // that.
                let applied = self.base.apply(batches);
                state.break_at(applied)
            }
            Err(Refused::Full(error)) => Err(error),
            Err(Refused::Unknown(error)) => state.break_at(Err(error)),
        }
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

    /// Begins one; none runs.
    fn begin(&self, state: &mut State) -> Result<(), DataError> {
        let sealed = state.log.seal();
        state.running = Some(state.break_at(sealed)?);
        state.begun += 1;
        self.base.rise();
        self.changed.notify_all();
        Ok(())
    }

    /// What the checkpointer does, until the store is closed.
    pub(super) fn make_checkpoints(&self) {
        let mut state = self.state.lock();
        loop {
            match state.running {
                Some(applied) => {
                    drop(state);
                    self.make(Position { applied, generation: self.generation });
                    state = self.state.lock();
                }
                None if state.closing => return,
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Makes the checkpoint that runs, without the mutex.
    fn make(&self, position: Position) {
        let mut done = self.base.checkpoint(&[], position);
        let (mut steps, mut settled) = (0..STEPS_MAX, None);
        let mut state = loop {
            let mut state = self.state.lock();
            if done.is_err() {
                break state;
            }
            let above = std::mem::take(&mut state.above);
            if above.len() <= FEW || steps.next().is_none() {
                done = self.base.settle(&[&above]).map(|above| settled = Some(above));
                break state;
            }
            drop(state);
            done = self.base.apply(&[&above]);
        };
        // If it failed, readers still see what is above.
        let _ = state.break_at(done);
        state.running = None;
        state.ended += 1;
        self.changed.notify_all();
        drop(state);
        // Much memory, maybe.
        drop(settled);
    }

    /// Tells the checkpointer to end.
    pub(super) fn close(&self) {
        self.state.lock().closing = true;
        self.changed.notify_all();
    }

    /// A last checkpoint, after the checkpointer has ended.
    pub(super) fn finish(&self) {
        let state = self.state.lock();
        if state.running.is_some() || state.broken.is_some() {
            return;
        }
        // It makes the next opening quick, no more: what fails here the log still has.
        let position = Position { applied: state.log.sequence(), generation: self.generation };
        if state.log.is_empty() || self.base.checkpoint(&[], position).is_ok() {
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
        match &state.broken {
            None => Ok(state),
            Some(why) => Err(DataError::new(format!(
                "{} takes no changes since an earlier error, and nothing was changed: open it again. The error was: {why}",
                self.place
            ))),
        }
    }
}

impl State {
    /// Remembers an error that leaves open what is on the disk.
    fn break_at<T>(&mut self, result: Result<T, DataError>) -> Result<T, DataError> {
        result.map_err(|why| {
            let error = DataError::new(format!("{why} (it is not known whether the changes were made)"));
            let error = error.with_outcome(Outcome::Unknown);
            self.broken = Some(error.clone());
            error
        })
    }
}
