//! The base: an ordered tree of all data, in the engine's file (redb: a copy-on-write B+tree with
//! checksums).
//!
//! It changes in two ways. A *volatile* change is seen by readers at once and is in memory, or in
//! parts of the file that nothing durable leads to; a crash undoes it, and the log redoes it. A
//! *checkpoint* makes all changes so far durable, in one step, along with the sequence of the last
//! group that is among them and the generation of the opening that wrote them: see `log.rs`.
//!
//! Checkpoints use the engine's two-phase commit and keep its list of free pages (*quick repair*),
//! so opening takes the time of the log and not that of the data. That is slower by a sync; it
//! happens once in a lap of the log.
//!
//! While a checkpoint is made the engine takes no changes. What is applied meanwhile is kept above
//! it ([`Memtable`]), and put into it in a few volatile steps behind the checkpoint.
//!
//! Invariants:
//! 1. Readers see the state after some group, whole: a view of the tree, and above it what is
//!    recent, up to a sequence. The three are replaced together, when a group has been applied,
//!    before any `apply` returns.
//! 2. The tree is changed by one thread at a time: by the thread that has the writer, unless a
//!    checkpoint is made; then by the thread that makes it.
//! 3. Only a checkpoint makes changes durable. The engine itself would at its end, under the
//!    position of the checkpoint before, and the log may have lost some of them since: then the log
//!    would be applied again to what is newer. So its file is shut before it ends, unless all is in
//!    a checkpoint.
//! 4. Whatever the engine reports, or a panic of it (it asserts much of what is in its file), is an
//!    error here, and no later change is tried. The end of the engine, which reads its file once
//!    more, can only be cut short. What cannot be turned into an error is a panic while the engine
//!    unwinds from another one: a damaged page that was not checked may abort the process.

use super::backend::{Backend, CloseHandle};
use super::disk::Medium;
use super::failure;
use super::memtable::Memtable;
use crate::lock::RwLock;
use crate::txn::{Bounds, Change, DataError, Entry, Value};
use redb::{
    Builder, Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition, WriteTransaction,
};
use std::cmp::Ordering;
use std::mem::ManuallyDrop;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const DATA: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");
const POSITION: TableDefinition<&str, u64> = TableDefinition::new("position");
const APPLIED: &str = "applied";
const GENERATION: &str = "generation";

type View = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// What readers see (Invariant 1).
#[derive(Clone, Default)]
struct Seen {
    view: Option<Arc<View>>,
    /// And the sequence of the last group of it.
    recent: Option<(Arc<Memtable>, u64)>,
}

/// What a checkpoint contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// All groups up to this sequence.
    pub(super) applied: u64,
    /// The opening of the store that made it.
    pub(super) generation: u64,
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

    /// Makes volatile changes.
    pub(super) fn apply(&self, batches: &[&[Change]]) -> Result<(), DataError> {
        self.change(batches, None, false)
    }

    /// From now on changes are kept above the tree, until they are [settled](Base::settle).
    pub(super) fn rise(&self) {
        self.seen.write().recent = Some((Arc::default(), 0));
    }

    /// Makes the changes of a group of this sequence above the tree.
    pub(super) fn apply_above(&self, sequence: u64, batches: &[&[Change]]) {
        let recent = self.seen.read().recent.as_ref().map(|(recent, _)| recent.clone());
        if let Some(recent) = recent {
            recent.add(sequence, batches);
            self.seen.write().recent = Some((recent, sequence));
        }
    }

    /// Makes the last changes that are above the tree in it, which has all others: nothing is above
    /// it any more. Returns what was above it, which is to be dropped where no thread waits.
    pub(super) fn settle(&self, batches: &[&[Change]]) -> Result<impl Sized + use<>, DataError> {
        let above = self.seen.read().recent.clone();
        self.change(batches, None, true)?;
        Ok(above)
    }

    /// Makes changes, and with all that were made before makes them durable.
    pub(super) fn checkpoint(&self, batches: &[&[Change]], position: Position) -> Result<(), DataError> {
        self.change(batches, Some(position), false)
    }

    /// Says that everything is in a checkpoint, and that nothing will be changed any more.
    pub(super) fn finish(&self) {
        self.finished.store(true, Relaxed);
    }

    fn change(
        &self,
        batches: &[&[Change]],
        position: Option<Position>,
        settles: bool,
    ) -> Result<(), DataError> {
        self.guarded("written", || {
            let mut txn = self.database.begin_write()?;
            match position {
                Some(position) => {
                    txn.set_quick_repair(true);
                    let mut table = txn.open_table(POSITION)?;
                    table.insert(APPLIED, position.applied)?;
                    table.insert(GENERATION, position.generation)?;
                }
                None => txn.set_durability(Durability::None)?,
            }
            change(&txn, batches)?;
            txn.commit()?;
            let view = self.database.begin_read()?.open_table(DATA)?;
            // What was there before is dropped outside of the lock.
            let mut seen = self.seen.write();
            let before = seen.view.replace(Arc::new(view));
            let above = if settles { seen.recent.take() } else { None };
            drop(seen);
            drop((before, above));
            Ok(())
        })
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, DataError> {
        let Seen { view, recent } = self.seen();
        if let Some((recent, sequence)) = recent
            && let Some(found) = recent.get(key, sequence)
        {
            return Ok(found);
        }
        let Some(view) = view else { return Ok(None) };
        self.guarded("read", || Ok(view.get(key)?.map(|value| value.value().into())))
    }

    pub(super) fn scan(
        &self,
        bounds: Bounds<'_>,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<Entry>, DataError> {
        let Seen { view, recent } = self.seen();
        let Some(view) = view.filter(|_| !is_empty(bounds)) else { return Ok(Vec::new()) };
        self.guarded("read", || {
            let mut range = view.range::<&[u8]>(bounds)?;
            let below = std::iter::from_fn(|| if descending { range.next_back() } else { range.next() });
            let mut below =
                below.map(|entry| entry.map(|(key, value)| (key.value().into(), value.value().into())));
            let Some((recent, sequence)) = recent else {
                return below.take(limit).map(|entry| Ok(entry?)).collect();
            };
            let mut above = recent.scan(bounds, descending, sequence).peekable();
            let mut entries = Vec::new();
            let mut next: Option<Entry> = below.next().transpose()?;
            while entries.len() < limit {
                let first = match (&next, above.peek()) {
                    (None, None) => break,
                    (Some(_), None) => Ordering::Less,
                    (None, Some(_)) => Ordering::Greater,
                    (Some((below, _)), Some((above, _))) if descending => above.cmp(below),
                    (Some((below, _)), Some((above, _))) => below.cmp(above),
                };
                // What is above decides where both have the key.
                if first != Ordering::Greater {
                    let entry = next.take().filter(|_| first == Ordering::Less);
                    next = below.next().transpose()?;
                    entries.extend(entry);
                }
                if first != Ordering::Less
                    && let Some((key, Some(value))) = above.next()
                {
                    entries.push((key, value));
                }
            }
            Ok(entries)
        })
    }

    fn seen(&self) -> Seen {
        self.seen.read().clone()
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
    Ok(Position { applied: number(APPLIED)?, generation: number(GENERATION)? })
}

fn change(txn: &WriteTransaction, batches: &[&[Change]]) -> Result<(), redb::Error> {
    let mut table = txn.open_table(DATA)?;
    for change in batches.iter().copied().flatten() {
        match change {
            Change::Put { key, value } => drop(table.insert(&**key, &**value)?),
            Change::Delete { key } => drop(table.remove(&**key)?),
        }
    }
    Ok(())
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
