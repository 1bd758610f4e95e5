//! Several tables with names in one store: with one log, and transactions over all of them.
//!
//! A table is a part of the store's keys: all that begin with the table's id, four bytes, the high
//! one first. The id 0 is that of the directory:
//!
//! | key, after the id | value |
//! | --- | --- |
//! | `format` | 1 |
//! | `next` | the id of the next table |
//! | `name` and a name | the table's id |
//! | `gone` and an id | nothing: the entries of this table are about to be removed |
//!
//! Invariants:
//! 1. An id belongs to one table for ever: `next` only rises. So a handle of a table that was
//!    removed reaches no other table.
//! 2. The directory changes in transactions of its own, and each of them leaves every id below
//!    `next` with one name, or listed as gone, or without entries. A crash in between leaves an id
//!    that is listed as gone, and opening removes its entries.

use super::data::Value;
use super::error::Error;
use super::scan::Scan;
use super::store::Store;
use super::transaction::{Isolation, Transaction};
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

/// The bytes of an id.
const ID_BYTES: usize = 4;
/// The only format.
const FORMAT: &[u8] = b"1";
/// The number of entries that one transaction removes of a table that is gone.
const REMOVED_AT_ONCE: usize = 1_000;

const DIRECTORY: Table = Table { id: [0; ID_BYTES] };

/// The tables of a store. All of the store's keys belong to some table.
///
/// ```
/// use manx::txn::{Isolation, Options, Store, Tables};
///
/// let tables = Tables::open(Store::in_memory(Options::default()))?;
/// let (users, orders) = (tables.open_or_create("users")?, tables.open_or_create("orders")?);
/// tables.store().run(Isolation::Snapshot, |it| {
///     users.put(it, b"7", b"Ada")?;
///     orders.put(it, b"7", b"three apples")
/// })?;
/// assert_eq!(tables.names()?, ["orders", "users"]);
/// # Ok::<(), manx::txn::TablesError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tables(Store);

/// Why a table cannot be had.
///
/// ```
/// use manx::txn::{Options, Store, Tables, TablesError};
///
/// let tables = Tables::open(Store::in_memory(Options::default()))?;
/// assert_eq!(tables.get("users").err(), Some(TablesError::Missing { name: "users".into() }));
/// # Ok::<(), TablesError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TablesError {
    /// There is no table of this name.
    #[error("there is no table `{name}`: create it, or see the names of those there are")]
    Missing {
        /// The name.
        name: String,
    },
    /// There is a table of this name already.
    #[error("there is a table `{name}` already: choose another name, or remove that one")]
    Exists {
        /// The name.
        name: String,
    },
    /// The store has keys, and no tables that this version knows: it was not made by [`Tables`], or
    /// by a later version.
    #[error(
        "the store has keys that belong to no table (`{}`), so nothing was changed: use it without tables, or a store \
         of its own",
        key.escape_ascii()
    )]
    Foreign {
        /// A key of it.
        key: Value,
    },
    /// There were as many tables as there are ids, 2^32 - 2.
    #[error("there were 2^32 - 2 tables, and ids are not used again: copy the tables to another store")]
    NoIds,
    /// The store's own error.
    #[error("{0}")]
    Store(#[from] Error),
}

/// The key of a name in the directory.
fn named(name: &str) -> Vec<u8> {
    [b"name", name.as_bytes()].concat()
}

impl Tables {
    /// Opens the tables of a store; an empty store gets a directory.
    ///
    /// # Errors
    /// [`TablesError::Foreign`], and those of the store.
    pub fn open(store: Store) -> Result<Tables, TablesError> {
        let tables = Tables(store);
        tables.change(|it| {
            let format = DIRECTORY.get(it, b"format")?;
            if format.as_deref() == Some(FORMAT) {
                return Ok(Ok(()));
            }
            if let Some(entry) = it.scan::<[u8], _>(..).limit(1).next() {
                return Ok(Err(TablesError::Foreign { key: entry?.0 }));
            }
            DIRECTORY.put(it, b"format", FORMAT)?;
            DIRECTORY.put(it, b"next", &1_u32.to_be_bytes()).map(Ok)
        })?;
        let gone = tables.listed("gone")?;
        for id in gone.iter().filter_map(|(id, _)| Table::of(id)) {
            tables.empty(&id)?;
        }
        Ok(tables)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.0
    }

    /// The names of all tables, in the order of their bytes.
    ///
    /// # Errors
    /// Those of the store.
    pub fn names(&self) -> Result<Vec<String>, TablesError> {
        let names = self.listed("name")?;
        Ok(names.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect())
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`TablesError::Missing`], and those of the store.
    pub fn get(&self, name: &str) -> Result<Table, TablesError> {
        let found = self.0.run(Isolation::Snapshot, |it| DIRECTORY.get(it, &named(name)))?;
        found.and_then(|id| Table::of(&id)).ok_or_else(|| TablesError::Missing { name: name.into() })
    }

    /// Makes a table, which is empty.
    ///
    /// # Errors
    /// [`TablesError::Exists`], [`TablesError::NoIds`], and those of the store.
    pub fn create(&self, name: &str) -> Result<Table, TablesError> {
        self.change(|it| {
            let key = named(name);
            if DIRECTORY.get(it, &key)?.is_some() {
                return Ok(Err(TablesError::Exists { name: name.into() }));
            }
            let next = DIRECTORY.get_for_update(it, b"next")?;
            let id = next.and_then(|id| Some(u32::from_be_bytes(id.as_ref().try_into().ok()?)));
            // The last id has no next one, where its keys would end.
            let Some(id) = id.filter(|&id| id < u32::MAX) else { return Ok(Err(TablesError::NoIds)) };
            DIRECTORY.put(it, b"next", &(id + 1).to_be_bytes())?;
            let table = Table { id: id.to_be_bytes() };
            DIRECTORY.put(it, &key, &table.id)?;
            Ok(Ok(table))
        })
    }

    /// The table of this name, which is made if there is none.
    ///
    /// # Errors
    /// [`TablesError::NoIds`], and those of the store.
    pub fn open_or_create(&self, name: &str) -> Result<Table, TablesError> {
        loop {
            match self.get(name) {
                Err(TablesError::Missing { .. }) => {}
                got => return got,
            }
            match self.create(name) {
                // By another thread, just now.
                Err(TablesError::Exists { .. }) => {}
                made => return made,
            }
        }
    }

    /// Gives a table another name. Handles of it stay what they are.
    ///
    /// # Errors
    /// [`TablesError::Missing`] and [`TablesError::Exists`], and those of the store.
    pub fn rename(&self, name: &str, to: &str) -> Result<(), TablesError> {
        self.change(|it| {
            let Some(id) = DIRECTORY.take(it, &named(name))? else {
                return Ok(Err(TablesError::Missing { name: name.into() }));
            };
            if DIRECTORY.get(it, &named(to))?.is_some() {
                return Ok(Err(TablesError::Exists { name: to.into() }));
            }
            DIRECTORY.put(it, &named(to), &id).map(Ok)
        })
    }

    /// Removes a table with all its entries. The name is gone at once; the entries then go in
    /// several transactions, which is completed when the store is opened again after a crash. What
    /// other threads still write with a handle of the table is lost.
    ///
    /// # Errors
    /// [`TablesError::Missing`], and those of the store.
    pub fn remove(&self, name: &str) -> Result<(), TablesError> {
        let table = self.change(|it| {
            let id = DIRECTORY.take(it, &named(name))?;
            let Some(table) = id.and_then(|id| Table::of(&id)) else {
                return Ok(Err(TablesError::Missing { name: name.into() }));
            };
            DIRECTORY.put(it, &[b"gone", &table.id[..]].concat(), b"")?;
            Ok(Ok(table))
        })?;
        self.empty(&table)
    }

    /// Removes the entries of a table that is gone.
    fn empty(&self, table: &Table) -> Result<(), TablesError> {
        let remove = |it: &mut Transaction<'_>| {
            let some = table.scan::<[u8], _>(it, ..).limit(REMOVED_AT_ONCE).collect::<Result<Vec<_>, _>>()?;
            for (key, _) in &some {
                table.delete(it, key)?;
            }
            Ok(some.len())
        };
        while self.0.run(Isolation::Snapshot, remove)? == REMOVED_AT_ONCE {}
        let listed = [b"gone", &table.id[..]].concat();
        self.0.run(Isolation::Snapshot, |it| DIRECTORY.delete(it, &listed))?;
        Ok(())
    }

    /// The directory's entries whose keys begin with this word, without the word.
    fn listed(&self, word: &str) -> Result<Vec<(Vec<u8>, Value)>, TablesError> {
        let all = self.0.run(Isolation::Snapshot, |it| {
            let found = DIRECTORY.scan(it, word..).map(|entry| {
                let (key, value) = entry?;
                Ok(key.strip_prefix(word.as_bytes()).map(|rest| (rest.to_vec(), value)))
            });
            let found: Result<Vec<Option<_>>, Error> =
                found.take_while(|it| !matches!(it, Ok(None))).collect();
            found
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Changes the directory, or leaves it as it is: a transaction that refuses has written
    /// nothing, or takes it back.
    fn change<T>(
        &self,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<Result<T, TablesError>, Error>,
    ) -> Result<T, TablesError> {
        self.0.run(Isolation::Serializable, |it| {
            let before = it.savepoint();
            let done = work(it)?;
            if done.is_err() {
                it.rollback_to(before)?;
            }
            Ok(done)
        })?
    }
}

/// A table: [`Tables`] gives them. Its operations are those of [`Transaction`], with keys of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    id: [u8; ID_BYTES],
}

impl Table {
    fn of(id: &[u8]) -> Option<Table> {
        Some(Table { id: id.try_into().ok()? })
    }

    /// The store's key for a key.
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.id, key].concat()
    }

    /// The store's keys for keys of a range.
    fn range<K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(
        &self,
        range: &R,
    ) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let of = |bound: Bound<&K>| bound.map(|key| self.key(key.as_ref()));
        let from = match of(range.start_bound()) {
            Bound::Unbounded => Bound::Included(self.id.to_vec()),
            from => from,
        };
        let to = match of(range.end_bound()) {
            // No table has the last id.
            Bound::Unbounded => Bound::Excluded((u32::from_be_bytes(self.id) + 1).to_be_bytes().to_vec()),
            to => to,
        };
        (from, to)
    }

    /// As [`Transaction::get`].
    ///
    /// # Errors
    /// Those of [`Transaction::get`].
    pub fn get(&self, it: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Value>, Error> {
        it.get(&self.key(key))
    }

    /// As [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Those of [`Transaction::get_for_update`].
    pub fn get_for_update(&self, it: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Value>, Error> {
        it.get_for_update(&self.key(key))
    }

    /// As [`Transaction::put`].
    ///
    /// # Errors
    /// Those of [`Transaction::put`].
    pub fn put(&self, it: &mut Transaction<'_>, key: &[u8], value: &[u8]) -> Result<(), Error> {
        it.put(&self.key(key), value)
    }

    /// As [`Transaction::replace`].
    ///
    /// # Errors
    /// Those of [`Transaction::replace`].
    pub fn replace(
        &self,
        it: &mut Transaction<'_>,
        key: &[u8],
        value: Value,
    ) -> Result<Option<Value>, Error> {
        it.replace(&self.key(key), value)
    }

    /// As [`Transaction::delete`].
    ///
    /// # Errors
    /// Those of [`Transaction::delete`].
    pub fn delete(&self, it: &mut Transaction<'_>, key: &[u8]) -> Result<bool, Error> {
        it.delete(&self.key(key))
    }

    /// As [`Transaction::take`].
    ///
    /// # Errors
    /// Those of [`Transaction::take`].
    pub fn take(&self, it: &mut Transaction<'_>, key: &[u8]) -> Result<Option<Value>, Error> {
        it.take(&self.key(key))
    }

    /// As [`Transaction::delete_range`], in this table.
    ///
    /// # Errors
    /// Those of [`Transaction::delete_range`].
    pub fn delete_range<K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(
        &self,
        it: &mut Transaction<'_>,
        range: R,
    ) -> Result<usize, Error> {
        it.delete_range::<Vec<u8>, _>(self.range(&range))
    }

    /// As [`Transaction::scan`], in this table.
    ///
    /// ```
    /// use manx::txn::{Error, Isolation, Options, Store, Tables};
    ///
    /// let tables = Tables::open(Store::in_memory(Options::default()))?;
    /// let users = tables.create("users")?;
    /// let last = tables.store().run(Isolation::Snapshot, |it| {
    ///     users.put(it, b"7", b"Ada")?;
    ///     users.put(it, b"8", b"Bob")?;
    ///     users.scan::<[u8], _>(it, ..).rev().next().transpose()
    /// })?;
    /// assert_eq!(last, Some(((*b"8").into(), (*b"Bob").into())));
    /// # Ok::<(), manx::txn::TablesError>(())
    /// ```
    pub fn scan<'t, 's, K: AsRef<[u8]> + ?Sized, R: RangeBounds<K>>(
        &self,
        it: &'t mut Transaction<'s>,
        range: R,
    ) -> TableScan<'t, 's> {
        TableScan(it.scan::<Vec<u8>, _>(self.range(&range)))
    }

    /// Counts what the table has for this transaction. It walks all of it: no write pays for the
    /// figures.
    ///
    /// ```
    /// use manx::txn::{Isolation, Options, Store, TableStats, Tables};
    ///
    /// let tables = Tables::open(Store::in_memory(Options::default()))?;
    /// let users = tables.create("users")?;
    /// let stats = tables.store().run(Isolation::Snapshot, |it| {
    ///     users.put(it, b"7", b"Ada")?;
    ///     users.stats(it)
    /// })?;
    /// assert_eq!(stats, TableStats { entries: 1, key_bytes: 1, value_bytes: 3 });
    /// # Ok::<(), manx::txn::TablesError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Transaction::scan`].
    pub fn stats(&self, it: &mut Transaction<'_>) -> Result<TableStats, Error> {
        let mut stats = TableStats::default();
        self.scan::<[u8], _>(it, ..).visit(|key, value| {
            stats.entries += 1;
            stats.key_bytes += key.len() as u64;
            stats.value_bytes += value.len() as u64;
            ControlFlow::Continue(())
        })?;
        Ok(stats)
    }
}

/// What a table has: [`Table::stats`] counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The number of entries.
    pub entries: u64,
    /// The bytes of their keys, as the table's users know these.
    pub key_bytes: u64,
    /// The bytes of their values.
    pub value_bytes: u64,
}

/// An iterator over entries of a table: [`Table::scan`] makes it. As [`Scan`], with the table's
/// keys.
#[derive(Debug)]
pub struct TableScan<'t, 's>(Scan<'t, 's>);

impl TableScan<'_, '_> {
    /// As [`Scan::rev`].
    ///
    /// # Panics
    /// It has begun.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "as that of a scan")]
    pub fn rev(self) -> Self {
        TableScan(self.0.rev())
    }

    /// As [`Scan::limit`].
    #[must_use]
    pub fn limit(self, entries: usize) -> Self {
        TableScan(self.0.limit(entries))
    }

    /// As [`Scan::visit`].
    ///
    /// # Errors
    /// Those of [`Scan::visit`].
    pub fn visit(self, mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<(), Error> {
        self.0.visit(|key, value| see(&key[ID_BYTES..], value))
    }
}

impl Iterator for TableScan<'_, '_> {
    type Item = <Scan<'static, 'static> as Iterator>::Item;

    fn next(&mut self) -> Option<Self::Item> {
        let own = |(key, value): (Value, Value)| (Arc::from(&key[ID_BYTES..]), value);
        self.0.next().map(|entry| entry.map(own))
    }
}
