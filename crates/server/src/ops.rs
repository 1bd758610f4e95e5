//! What commands do in a transaction: read, write and delete keys that may expire.
//!
//! To a client, an expired key does not exist. A transaction that finds one reports it to the
//! housekeeping, which deletes it; a transaction that only reads writes nothing.
//!
//! Transactions have a snapshot, and if two write the same name, one of them has to begin again.
//! That is enough for a command that writes what it reads, also of collections (see `collection/`).
//! If each of two EXECs reads what the other one writes, both would succeed, although no order of
//! the two explains what they have read (*write skew*); so would SUNIONSTORE of one key into
//! another and of that one into the first. So a transaction of several commands, or of one that
//! copies, also writes the names that it has only read, unchanged, if it writes something
//! ([`Ops::promote`]): then one of the two begins again.
//!
//! FLUSHALL begins a new *generation* of keys (`names.rs`): it writes one number, however many keys
//! there are. The housekeeping deletes the keys of the generations before ([`Ops::purge_keys`]).
//!
//! When a collection's key is deleted, gets another value, or expires, its members are left without
//! a collection. A few are deleted at once. For more, the same transaction only writes a
//! *tombstone*, which takes the same time for millions. The housekeeping finds tombstones, also
//! after a restart, and deletes the members, some at a time ([`Ops::purge`]): first all lanes, so
//! that no member can be added any more (Invariant 3 of the collections), and the tombstone last.

mod purge;

use crate::access::Access;
use crate::collection;
use crate::cursors::Cursors;
use crate::fault::{Fault, WRONG_TYPE};
use crate::key_count::{Change, Outcome};
use crate::keyspace::Keyspace;
use crate::memory;
use crate::names::{self, GENERATION, MEMBERS, Name, ORDER};
use crate::resp::Source;
use crate::value::{self, Found, Header, Kind};
use crate::waiters;
use manx::txn::{DataError, Error, Scan, Transaction, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// The maximum number of members that are deleted at once.
const AT_ONCE_MAX: u64 = if cfg!(test) { 4 } else { 32 };

/// What a thread keeps of the memory in which it puts values together.
const SCRATCH_BYTES: usize = 64 * 1024;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A transaction, and what its commands need beside it.
pub(crate) struct Ops<'o, 's> {
    txn: &'o mut Transaction<'s>,
    keyspace: &'o Keyspace,
    /// Which its keys are of.
    generation: u64,
    /// It has begun it.
    is_new_generation: bool,
    /// How many keys of the generation it has added.
    added: Change,
    /// What its writes have added to the memory.
    bytes: i64,
    now_ms: Option<u64>,
    /// The names that were read, and whether they were written too, if that is to be known.
    read: Option<HashMap<Name, bool>>,
    /// The keys that it gives a list or a sorted set.
    pub(crate) made: Vec<Name>,
    /// No value may be longer.
    pub(crate) value_bytes_max: usize,
    /// Whether the client's user may read all keys.
    pub(crate) reads_all_keys: bool,
}

impl<'o, 's> Ops<'o, 's> {
    pub(crate) fn new(
        txn: &'o mut Transaction<'s>,
        keyspace: &'o Keyspace,
        value_bytes_max: usize,
    ) -> Ops<'o, 's> {
        let generation = keyspace.generation();
        Ops {
            txn,
            keyspace,
            generation,
            is_new_generation: false,
            added: Change::default(),
            bytes: 0,
            now_ms: None,
            read: None,
            made: Vec::new(),
            value_bytes_max,
            reads_all_keys: false,
        }
    }

    /// What is to be done once the transaction is committed.
    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            generation: self.generation,
            is_new: self.is_new_generation,
            added: self.added,
            bytes: self.bytes,
        }
    }

    /// The name of what a key has.
    #[inline]
    pub(crate) fn name(&self, key: &[u8]) -> Name {
        names::key(self.generation, key)
    }

    /// A key had this and has something else now, with an expiry or not, or nothing.
    #[inline]
    fn note(&mut self, name: &[u8], before: Option<&Value>, after: Option<bool>) {
        let had_expiry = before.is_some_and(|value| value::has_expiry(value));
        if let Some(access) = &self.keyspace.access
            && before.is_none()
            && after.is_some()
        {
            access.begin(names::key_in(name).unwrap_or_default(), now_ms());
        }
        self.added.keys += i64::from(after.is_some()) - i64::from(before.is_some());
        self.added.expiries += i64::from(after == Some(true)) - i64::from(had_expiry);
    }

    /// Milliseconds since 1970: the same for all that the transaction does.
    pub(crate) fn now_ms(&mut self) -> u64 {
        *self.now_ms.get_or_insert_with(now_ms)
    }

    pub(crate) fn cursors(&self) -> &'o Cursors {
        &self.keyspace.cursors
    }

    /// From now on the names that are read are remembered, for [`Ops::promote`].
    pub(crate) fn remember(&mut self) {
        self.read = Some(HashMap::new());
    }

    /// Whether names that are read are remembered.
    pub(crate) fn remembers(&self) -> bool {
        self.read.is_some()
    }

    /// Writes the remembered names that were only read, with the values that they have, if the
    /// transaction has written something.
    pub(crate) fn promote(&mut self) -> Result<(), Error> {
        let read = if self.txn.id().is_some() { self.read.take() } else { None };
        for (name, was_written) in read.into_iter().flatten() {
            if was_written {
                continue;
            }
            self.txn.get_for_update(&name)?;
        }
        Ok(())
    }

    /// This name was read, or the result depends on it as if it was.
    pub(crate) fn was_read(&mut self, name: &[u8]) {
        if let Some(read) = &mut self.read
            && !read.contains_key(name)
        {
            read.insert(name.into(), false);
        }
    }

    fn was_written(&mut self, name: &[u8]) {
        if let Some(read) = &mut self.read {
            read.insert(name.into(), true);
        }
    }

    /// What the key has, of any kind.
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<Found>, Error> {
        let name = self.name(key);
        self.was_read(&name);
        match self.txn.get(&name)? {
            None => Ok(None),
            Some(value) => self.alive(key, value),
        }
    }

    /// The same, which does not count as a use of the key.
    pub(crate) fn look_at(&mut self, key: &[u8]) -> Result<Option<Found>, Error> {
        let name = self.name(key);
        self.was_read(&name);
        self.txn.get(&name)?.map_or(Ok(None), |value| self.not_expired(key, value))
    }

    /// When, or how often, keys are used, if that is known.
    pub(crate) fn access(&self) -> Option<&'o Access> {
        self.keyspace.access.as_ref()
    }

    /// The string that the key has.
    pub(crate) fn string(&mut self, key: &[u8]) -> Result<Option<Found>, Fault> {
        match self.get(key)? {
            Some(found) if found.kind() != Kind::String => Err(WRONG_TYPE.into()),
            found => Ok(found),
        }
    }

    fn alive(&mut self, key: &[u8], value: Value) -> Result<Option<Found>, Error> {
        let found = self.not_expired(key, value)?;
        if let Some(access) = &self.keyspace.access
            && found.is_some()
        {
            access.touch(key, self.now_ms());
        }
        Ok(found)
    }

    fn not_expired(&mut self, key: &[u8], value: Value) -> Result<Option<Found>, Error> {
        let found = Found::read(value).ok_or_else(|| foreign(key))?;
        if found.expires_ms().is_some_and(|expires| expires <= self.now_ms()) {
            self.keyspace.expired.report(key);
            return Ok(None);
        }
        Ok(Some(found))
    }

    /// Gives the key a string, whatever it had.
    pub(crate) fn put<'a>(
        &mut self,
        key: &[u8],
        source: impl Into<Source<'a>>,
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        let name = self.name(key);
        let value = match source.into() {
            Source { whole: Some(whole), .. } if expires_ms.is_none() => Arc::clone(whole),
            Source { bytes, .. } => value::string(bytes, self.keyspace.stamp(), expires_ms),
        };
        let before = self.write_value(&name, expires_ms, value)?;
        self.drop_members(before)
    }

    /// Gives the key a string that `write` appends.
    pub(crate) fn put_with(
        &mut self,
        key: &[u8],
        expires_ms: Option<u64>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Error> {
        let name = self.name(key);
        let before = self.write(&name, expires_ms, |value, stamp| {
            value::begin_string(value, stamp, expires_ms);
            write(value);
        })?;
        self.drop_members(before)
    }

    /// Gives the key another collection, whatever it had.
    pub(crate) fn put_collection(
        &mut self,
        key: &[u8],
        kind: Kind,
        expires_ms: Option<u64>,
        header: Header,
    ) -> Result<(), Error> {
        let before = self.write_header(key, kind, expires_ms, header)?;
        if matches!(kind, Kind::List | Kind::SortedSet) {
            self.made.push(waiters::wanted(kind, key));
        }
        self.drop_members(before)
    }

    /// Gives another key what this one has, whatever the other had. A collection's members stay
    /// where they are, so it takes the same time for any number of them.
    pub(crate) fn rename(&mut self, from: &[u8], found: &Found, to: &[u8]) -> Result<(), Error> {
        self.give(to, found, found.header())?;
        self.remove_header(from)
    }

    /// Gives a key a copy of what another one has, whatever it had.
    pub(crate) fn copy(&mut self, found: &Found, to: &[u8]) -> Result<(), Error> {
        let header = found.header().map(|header| collection::copy(self, header)).transpose()?;
        self.give(to, found, header)
    }

    /// Gives a key this string, or the collection with this header.
    fn give(&mut self, to: &[u8], found: &Found, header: Option<Header>) -> Result<(), Error> {
        match header {
            Some(header) => self.put_collection(to, found.kind(), found.expires_ms(), header),
            None => self.put(to, found.bytes(), found.expires_ms()),
        }
    }

    /// Writes the header of a collection that the key has.
    pub(crate) fn put_header(
        &mut self,
        key: &[u8],
        kind: Kind,
        expires_ms: Option<u64>,
        header: Header,
    ) -> Result<(), Error> {
        self.write_header(key, kind, expires_ms, header).map(drop)
    }

    /// The same; returns what the key had.
    fn write_header(
        &mut self,
        key: &[u8],
        kind: Kind,
        expires_ms: Option<u64>,
        header: Header,
    ) -> Result<Option<Value>, Error> {
        let name = self.name(key);
        let write = |value: &mut Vec<u8>, stamp| value::collection(value, kind, stamp, expires_ms, header);
        self.write(&name, expires_ms, write)
    }

    /// Gives what the key has another expiry.
    pub(crate) fn put_expiry(
        &mut self,
        key: &[u8],
        found: &Found,
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        match found.header() {
            Some(header) => self.put_header(key, found.kind(), expires_ms, header),
            None => self.put(key, found.bytes(), expires_ms),
        }
    }

    /// Deletes the members of the collection that a key had, if it was one, or writes a tombstone.
    #[inline]
    fn drop_members(&mut self, had: Option<Value>) -> Result<(), Error> {
        if let Some(header) = had.and_then(Found::read).and_then(|found| found.header()) {
            let Header { incarnation, count, is_wide, .. } = header;
            if is_wide || count > AT_ONCE_MAX {
                return self.store(&names::tombstone(incarnation), b"");
            }
            // Each writer of a member of a small collection writes the header too, so this
            // transaction sees all members or conflicts.
            for space in [MEMBERS, ORDER] {
                self.remove_all(&names::all_of(space, incarnation), usize::MAX)?;
            }
        }
        Ok(())
    }

    /// Gives a name of a key what `write` appends. Returns what it had.
    #[inline]
    fn write(
        &mut self,
        name: &[u8],
        expires_ms: Option<u64>,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Option<Value>, Error> {
        let stamp = self.keyspace.stamp();
        let value = SCRATCH.with_borrow_mut(|scratch| {
            write(scratch, stamp);
            let value = scratch[..].into();
            // A large value shall not keep its memory for ever.
            scratch.clear();
            scratch.shrink_to(SCRATCH_BYTES);
            value
        });
        self.write_value(name, expires_ms, value)
    }

    /// Gives a name of a key this, which expires or not. Returns what it had.
    #[inline]
    fn write_value(
        &mut self,
        name: &[u8],
        expires_ms: Option<u64>,
        value: Value,
    ) -> Result<Option<Value>, Error> {
        if expires_ms.is_some() {
            self.keyspace.note_expiry();
        }
        let before = replace(self.txn, &mut self.bytes, name, value)?;
        self.was_written(name);
        self.note(name, before.as_ref(), Some(expires_ms.is_some()));
        Ok(before)
    }

    /// Deletes what a key has and no members: they are all deleted, or another key has them.
    pub(crate) fn remove_header(&mut self, key: &[u8]) -> Result<(), Error> {
        let name = self.name(key);
        let had = take(self.txn, &mut self.bytes, &name)?;
        self.was_written(&name);
        self.note(&name, had.as_ref(), None);
        Ok(())
    }

    /// Deletes what a key has under this name, and the members of it.
    pub(crate) fn remove_key(&mut self, name: &[u8]) -> Result<(), Error> {
        let had = take(self.txn, &mut self.bytes, name)?;
        self.was_written(name);
        self.note(name, had.as_ref(), None);
        self.drop_members(had)
    }

    /// Deletes the key. Returns whether it was there.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool, Error> {
        let name = self.name(key);
        self.was_read(&name);
        let Some(value) = self.txn.get(&name)? else { return Ok(false) };
        let was = self.alive(key, value)?.is_some();
        self.remove_key(&name)?;
        Ok(was)
    }

    /// Deletes the key if it has expired.
    pub(crate) fn delete_expired(&mut self, key: &[u8]) -> Result<(), Error> {
        let (now, name) = (self.now_ms(), self.name(key));
        if let Some(value) = self.txn.get(&name)?
            && Found::read(value).and_then(|found| found.expires_ms()).is_some_and(|expires| expires <= now)
        {
            self.remove_key(&name)?;
        }
        Ok(())
    }

    /// Deletes the key, if it is there, and has an expiry if that is asked for. Returns whether it
    /// was.
    pub(crate) fn evict(&mut self, key: &[u8], is_volatile: bool) -> Result<bool, Error> {
        let name = self.name(key);
        let had = self.txn.get(&name)?;
        let goes = had.is_some_and(|value| !is_volatile || value::has_expiry(&value));
        if goes {
            self.remove_key(&name)?;
        }
        Ok(goes)
    }

    /// Deletes everything: the next generation begins.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        // Another FLUSHALL may be committed and not yet known.
        let stored = self.txn.get(GENERATION)?.map_or(0, |value| names::number(&value));
        self.generation = self.generation.max(stored) + 1;
        self.txn.put(GENERATION, &self.generation.to_be_bytes())?;
        self.is_new_generation = true;
        self.added = Change::default();
        Ok(())
    }

    /// How many keys there are, and how many of them have an expiry: what others have committed by
    /// now, and what this transaction has done.
    pub(crate) fn count_keys(&mut self) -> Result<(u64, u64), Error> {
        let others = if self.is_new_generation { Some((0, 0)) } else { self.keyspace.count.get() };
        if let Some((keys, expiries)) = others {
            self.txn.depend_on_all();
            let Change { keys: added, expiries: expiries_added } = self.added;
            return Ok((keys.saturating_add_signed(added), expiries.saturating_add_signed(expiries_added)));
        }
        let mut counted = (0, 0);
        for entry in self.entries(&names::keys(self.generation), false) {
            counted.0 += 1;
            counted.1 += u64::from(value::has_expiry(&entry?.1));
        }
        Ok(counted)
    }

    /// The names of the first key and of the last one, expired or not.
    pub(crate) fn outer_keys(&mut self) -> Result<Option<(Value, Value)>, Error> {
        let all = names::keys(self.generation);
        let first = self.entries(&all, false).next().transpose()?;
        let last = self.entries(&all, true).next().transpose()?;
        Ok(first.zip(last).map(|((first, _), (last, _))| (first, last)))
    }

    /// Shows keys behind `from` and what they have, in their order, until `see` says that it has
    /// seen enough.
    pub(crate) fn scan(
        &mut self,
        from: Bound<&[u8]>,
        mut see: impl FnMut(&[u8], &Found) -> Enough,
    ) -> Result<(), Error> {
        let keyspace = self.keyspace;
        self.scan_all(from, |key, found| match found {
            Some(found) => see(key, found),
            None => {
                keyspace.expired.report(key);
                Enough::No
            }
        })
    }

    /// Does the same with expired keys too; of these, only the key is shown.
    pub(crate) fn scan_all(
        &mut self,
        from: Bound<&[u8]>,
        mut see: impl FnMut(&[u8], Option<&Found>) -> Enough,
    ) -> Result<(), Error> {
        let (now, all) = (self.now_ms(), names::keys(self.generation));
        let from = from.map(|key| self.name(key));
        let from = match &from {
            Bound::Unbounded => Bound::Included(&all.start[..]),
            from => from.as_ref().map(|name| &name[..]),
        };
        for entry in self.txn.scan::<[u8], _>((from, Bound::Excluded(&all.end[..]))) {
            let (name, value) = entry?;
            let key = names::key_in(&name).ok_or_else(|| foreign(&name))?;
            let found = Found::read(value).ok_or_else(|| foreign(key))?;
            let is_alive = found.expires_ms().is_none_or(|expires| expires > now);
            if see(key, is_alive.then_some(&found)) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }
}

/// What collections consist of: names that are no keys. Reading them is not remembered here.
impl<'s> Ops<'_, 's> {
    /// Returns a number that no other caller gets.
    pub(crate) fn stamp(&self) -> u64 {
        self.keyspace.stamp()
    }

    /// A collection is about to be made. Returns its incarnation.
    pub(crate) fn new_incarnation(&self) -> u64 {
        self.keyspace.note_collection();
        self.keyspace.stamp()
    }

    pub(crate) fn load(&mut self, name: &[u8]) -> Result<Option<Value>, Error> {
        self.txn.get(name)
    }

    pub(crate) fn store(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        replace(self.txn, &mut self.bytes, name, value.into())?;
        self.was_written(name);
        Ok(())
    }

    /// Returns what the name had.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<Option<Value>, Error> {
        let had = take(self.txn, &mut self.bytes, name)?;
        self.was_written(name);
        Ok(had)
    }

    /// The entries of a range, ascending or descending.
    pub(crate) fn entries<'t>(&'t mut self, range: &Range<Name>, descending: bool) -> Scan<'t, 's> {
        let scan = self.txn.scan::<[u8], _>(names::bounds(range));
        if descending { scan.rev() } else { scan }
    }
}

/// Gives a name a value, returns what it had, and adds to `bytes` what that takes.
#[inline]
fn replace(
    txn: &mut Transaction<'_>,
    bytes: &mut i64,
    name: &[u8],
    value: Value,
) -> Result<Option<Value>, Error> {
    let after = value.len();
    let before = txn.replace(name, value)?;
    *bytes += memory::growth(name, before.as_ref().map(|value| value.len()), Some(after));
    Ok(before)
}

/// Deletes what a name has, returns it, and subtracts from `bytes` what that took.
#[inline]
fn take(txn: &mut Transaction<'_>, bytes: &mut i64, name: &[u8]) -> Result<Option<Value>, Error> {
    let before = txn.take(name)?;
    *bytes += memory::growth(name, before.as_ref().map(|value| value.len()), None);
    Ok(before)
}

/// Whether a scan has seen enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

/// The error if a key or a name has a value that no server writes.
#[cold]
pub(crate) fn foreign(key: &[u8]) -> Error {
    let key = key[..key.len().min(64)].escape_ascii();
    let what = format!("the value of {key} was not written by a server: serve another folder");
    DataError::new(what).into()
}
