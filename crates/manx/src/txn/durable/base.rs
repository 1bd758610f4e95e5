//! The base: an ordered tree of all data, in the engine's file (redb: a copy-on-write B+tree with
//! checksums).
//!
//! The tree changes by checkpoints alone: each puts in what was appended since the one before, and
//! is durable in one step, along with the sequence of the last batch that is among it and the
//! generation of the opening that wrote it: see `log.rs`. What is not in the tree is above it, in
//! memory (`memtable.rs`). While a checkpoint is made, there are two layers above:
//!
//! ```text
//! active   10 11 12 …      what is appended now
//! frozen   7 8 9           what the checkpoint puts into the tree; gone when that is durable
//! tree     … 6
//! ```
//!
//! Checkpoints use the engine's two-phase commit and keep its list of free pages (*quick repair*),
//! so opening takes the time of the log and not that of the data. That is slower by a sync; it
//! happens once in a lap of the log.
//!
//! Invariants:
//! 1. Readers see the state after some batch, whole: the three layers are replaced together, and
//!    the active one says up to which batch it is whole.
//! 2. One thread at a time makes a checkpoint, and none freezes a layer before the last one that
//!    was frozen is in the tree.
//! 3. Only a checkpoint makes changes durable. After one that failed the engine itself might at its
//!    end, under the position of the checkpoint before. So its file is shut before it ends, unless
//!    all is in a checkpoint.
//! 4. Whatever the engine reports, or a panic of it (it asserts much of what is in its file), is an
//!    error here, and no later change is tried. The end of the engine, which reads its file once
//!    more, can only be cut short. What cannot be turned into an error is a panic while the engine
//!    unwinds from another one: a damaged page that was not checked may abort the process.

use super::backend::{Backend, CloseHandle};
use super::disk::Medium;
use super::failure;
use super::memtable::{Memtable, over};
use crate::lock::RwLock;
use crate::txn::{Bounds, Change, DataError, Entry, Recovered, Value};
use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DATA: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");
const POSITION: TableDefinition<&str, u64> = TableDefinition::new("position");
const APPLIED: &str = "applied";
const GENERATION: &str = "generation";
const LAST_ID: &str = "last id";
const TIMESTAMP: &str = "timestamp";
const OLDEST_TIMESTAMP: &str = "oldest timestamp";

type View = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What readers see (Invariant 1).
#[derive(Clone, Default)]
struct Seen {
    active: Arc<Memtable>,
    frozen: Option<Arc<Memtable>>,
    view: Option<Arc<View>>,
}

/// What a checkpoint contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// All groups up to this sequence.
    pub(super) applied: u64,
    /// The opening of the store that made it.
    pub(super) generation: u64,
    /// What a later owner is told of these batches. (The epoch is not kept.)
    pub(super) known: Recovered,
}

/// The base of an open store.
pub(super) struct Base {
    seen: RwLock<Seen>,
    database: ManuallyDrop<Database>,
    shutter: CloseHandle,
    /// All is in a checkpoint (Invariant 3). Relaxed: the thread that ends it has said so, or no
    /// thread has.
    finished: AtomicBool,
    place: String,
}

impl Base {
    /// Opens it, and makes it in an empty file.
    pub(super) fn open(
        file: Box<dyn Medium>,
        place: String,
        cache_bytes: usize,
        check: bool,
    ) -> Result<(Base, Position), DataError> {
        guarded(&place, || {
            let failed = |error: redb::Error| failure::of_engine(&place, "opened", error);
            let mut builder = Builder::new();
            builder.set_cache_size(cache_bytes).set_check_integrity_on_open(check);
            let (backend, shutter) = Backend::new(file);
            let opened = builder.create_with_backend(backend);
            let database = opened.map_err(|error| failed(error.into()))?;
            let position = position(&database).map_err(failed)?;
            let database = ManuallyDrop::new(database);
            let (seen, finished, place) = (RwLock::default(), AtomicBool::new(false), place.clone());
            let base = Base { seen, database, shutter, finished, place };
            Ok((base, position))
        })
    }

    /// Adds the changes of a batch of this sequence.
    pub(super) fn add(&self, sequence: u64, changes: &[Change]) {
        let active = Arc::clone(&self.seen.read().active);
        active.add(sequence, changes);
    }

    /// What was added until now is for the next checkpoint, which follows.
    pub(super) fn freeze(&self) {
        let mut seen = self.seen.write();
        debug_assert!(seen.frozen.is_none(), "Invariant 2");
        seen.frozen = Some(std::mem::take(&mut seen.active));
    }

    /// Puts into the tree, durably, what was frozen.
    pub(super) fn checkpoint(&self, position: Position) -> Result<(), DataError> {
        let frozen = self.seen.read().frozen.clone();
        self.guarded("written", || {
            let mut txn = self.database.begin_write()?;
            txn.set_quick_repair(true);
            {
                let Position { applied, generation, known } = position;
                let mut table = txn.open_table(POSITION)?;
                table.insert(APPLIED, applied)?;
                table.insert(GENERATION, generation)?;
                table.insert(LAST_ID, known.last_id)?;
                table.insert(TIMESTAMP, known.timestamp)?;
                table.insert(OLDEST_TIMESTAMP, known.oldest_timestamp)?;
                let mut table = txn.open_table(DATA)?;
                for (key, found) in frozen.iter().flat_map(|frozen| frozen.all()) {
                    match found {
                        Some(value) => drop(table.insert(&*key, &*value)?),
                        None => drop(table.remove(&*key)?),
                    }
                }
            }
            txn.commit()?;
            let view = self.database.begin_read()?.open_table(DATA)?;
            let mut seen = self.seen.write();
            let before = (seen.view.replace(Arc::new(view)), seen.frozen.take());
            // Much memory, maybe: outside of the lock.
            drop(seen);
            drop(before);
            Ok(())
        })
    }

    /// Says that everything is in a checkpoint, and that nothing will be changed any more.
    pub(super) fn finish(&self) {
        self.finished.store(true, Relaxed);
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        let view = {
            let Seen { active, frozen, view } = &*self.seen.read();
            // The frozen one is whole.
            let above = active.get(key, u64::MAX);
            if let Some(found) =
                above.or_else(|| frozen.as_ref().and_then(|frozen| frozen.get(key, u64::MAX)))
            {
                return Ok(found);
            }
            view.clone()
        };
        let Some(view) = view else { return Ok(None) };
        self.guarded("read", || Ok(view.get(key)?.map(|value| value.value().into())))
    }

    pub(super) fn scan(
        &self,
        bounds: Bounds<'_>,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, DataError> {
        if is_empty(bounds) {
            return Ok(Vec::new());
        }
        let Seen { active, frozen, view } = self.seen.read().clone();
        let sequence = active.sequence();
        self.guarded("read", || {
            let mut failed = None;
            let mut range = view.as_ref().map(|view| view.range::<&[u8]>(bounds)).transpose()?;
            let tree = std::iter::from_fn(|| {
                let range = range.as_mut()?;
                match if descending { range.next_back() } else { range.next() }? {
                    Ok((key, value)) => Some((key.value().into(), Some(value.value().into()))),
                    Err(error) => {
                        failed = Some(error);
                        None
                    }
                }
            });
            let frozen = frozen.iter().flat_map(|frozen| frozen.scan(bounds, descending, u64::MAX));
            let all =
                over(active.scan(bounds, descending, sequence), over(frozen, tree, descending), descending);
            let entries = all.filter_map(|(key, found)| Some((key, found?))).take(limit).collect();
            failed.map_or(Ok(entries), |error| Err(error.into()))
        })
    }

    fn guarded<T>(&self, done: &str, work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, DataError> {
        let failed = |error| failure::of_engine(&self.place, done, error);
        guarded(&self.place, || work().map_err(failed))
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if !self.finished.load(Relaxed) {
            self.shutter.shut();
        }
        // Invariant 4. What readers see goes before the database that it is of.
        let seen = std::mem::take(&mut *self.seen.write());
        // SAFETY: it is taken once, and used nowhere behind this.
        let database = unsafe { ManuallyDrop::take(&mut self.database) };
        let ended = catch_unwind(AssertUnwindSafe(move || {
            drop(seen);
            drop(database);
        }));
        // A panic has said itself what it was about, and the log has what no checkpoint has.
        drop(ended);
    }
}

/// What the last checkpoint contains; nothing, if there is none.
fn position(database: &Database) -> Result<Position, redb::Error> {
    let table = match database.begin_read()?.open_table(POSITION) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Position::default()),
        table => table?,
    };
    let number = |name| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |number| number.value()));
    let known = Recovered {
        epoch: 0,
        last_id: number(LAST_ID)?,
        timestamp: number(TIMESTAMP)?,
        oldest_timestamp: number(OLDEST_TIMESTAMP)?,
    };
    Ok(Position { applied: number(APPLIED)?, generation: number(GENERATION)?, known })
}

/// Whether the bounds are reversed, or equal and not both included. The engine is not asked then.
fn is_empty(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}

/// Turns a panic of the engine into an error.
fn guarded<T>(place: &str, work: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    // Unwind safety: the caller that gets the error makes no further change, and readers have a
    // view that no thread changes.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(failure::damaged(place, &format!("the engine gave up ({text})")))
    })
}
