//! Collections: hashes, lists, sets and sorted sets, each member an entry of its own, so that one
//! more among millions costs what a key costs.
//!
//! A collection is a *header* under its key and members under its incarnation (`names.rs`). The
//! header says how many members there are, and when there is none left the collection is not there
//! any more. The difficulty is to keep that exact. If each writer wrote the header, all writers of
//! a collection would conflict; if none did, a transaction that deletes the last member and the
//! collection with it would not notice another that adds one (*write skew*: each reads what the
//! other writes). So there are two forms:
//!
//! | | small, up to [`SMALL_MAX`] members | wide |
//! | --- | --- | --- |
//! | the header counts | members | lanes that have members |
//! | a writer of a member writes | the header | the member's lane; and the header, if the lane becomes empty or is no longer |
//! | two writers conflict | always | in the same lane, or in the header |
//!
//! A *lane* is a part of the members, by a hash (`lanes.rs`). A collection that has become wide
//! stays so until it is deleted.
//!
//! Invariants:
//! 1. A header's count is exact in each snapshot, and is not 0. For each of its changes the header
//!    is written, and of two that write the same name one begins again.
//! 2. A transaction that writes a member also writes a name from which the collection's count is
//!    made: the header or a lane.
//! 3. What is written into a dead incarnation is deleted. Its last writer wrote the header too, and
//!    then conflicts with the transaction that deleted it; or it wrote a lane that was there. Lanes
//!    are deleted first, in one transaction ([`Ops::purge`]). A writer that has not seen that
//!    deletion conflicts with it; a writer that has seen it has seen the tombstone.
//! 4. A transaction that remembers what it reads remembers, for a member, the name from Invariant
//!    2, and for all members all of those.
//!
//! A transaction that writes a member and not the header has only read the header. Another
//! transaction may have replaced the header meanwhile, or moved it to another key (RENAME, which
//! deletes it here and so conflicts with all that write it). That is as if the member had been
//! written just before.

mod copy;
mod lanes;
mod list;
mod order;
mod random;
#[cfg(test)]
mod tests;
mod usage;

use crate::fault::{Fault, WRONG_TYPE};
use crate::names::{self, MEMBERS, Name};
use crate::ops::{Enough, Ops, foreign};
use crate::value::{Found, Header, Kind};
pub(crate) use copy::copy;
pub(crate) use list::{List, Side};
use manx::txn::{Error, Value};
pub(crate) use order::{Scores, SortedSet};
pub(crate) use random::{WALKED_MAX, place};
use std::ops::Range;

/// A collection with more members is wide.
const SMALL_MAX: u64 = if cfg!(test) { 8 } else { 512 };

/// A collection, in a transaction.
#[derive(Debug)]
pub(crate) struct Collection<'k> {
    key: &'k [u8],
    kind: Kind,
    expires_ms: Option<u64>,
    header: Header,
    /// The key has had none, or something else that has expired.
    is_new: bool,
    /// The header is to be written.
    has_changed: bool,
}

impl<'k> Collection<'k> {
    /// The collection that the key has, if there is one.
    pub(crate) fn find(
        ops: &mut Ops<'_, '_>,
        key: &'k [u8],
        kind: Kind,
    ) -> Result<Option<Collection<'k>>, Fault> {
        let Some(found) = ops.get(key)? else { return Ok(None) };
        let collection = Collection::of(key, &found).filter(|found| found.kind == kind);
        collection.map(Some).ok_or(WRONG_TYPE.into())
    }

    /// The collection that a key was found to have, if it is one.
    pub(crate) fn of(key: &'k [u8], found: &Found) -> Option<Collection<'k>> {
        let (kind, expires_ms, header) = (found.kind(), found.expires_ms(), found.header()?);
        Some(Collection { key, kind, expires_ms, header, is_new: false, has_changed: false })
    }

    /// The same, or a new one, which is there once it has a member and [`Collection::finish`] was
    /// called.
    pub(crate) fn find_or_make(
        ops: &mut Ops<'_, '_>,
        key: &'k [u8],
        kind: Kind,
    ) -> Result<Collection<'k>, Fault> {
        if let Some(collection) = Collection::find(ops, key, kind)? {
            return Ok(collection);
        }
        let header = Header { incarnation: ops.new_incarnation(), count: 0, is_wide: false, first: None };
        Ok(Collection { key, kind, expires_ms: None, header, is_new: true, has_changed: false })
    }

    /// What the member has.
    pub(crate) fn get(&self, ops: &mut Ops<'_, '_>, member: &[u8]) -> Result<Option<Value>, Error> {
        if self.header.is_wide && ops.remembers() {
            // Invariant 4; the header was remembered when it was found.
            ops.was_read(&names::lane(self.header.incarnation, lanes::of(member)));
        }
        ops.load(&self.name(member))
    }

    fn name(&self, member: &[u8]) -> Name {
        names::member(self.header.incarnation, member)
    }

    /// Gives the member a value. `is_new`: it has none yet.
    pub(crate) fn put(
        &mut self,
        ops: &mut Ops<'_, '_>,
        member: &[u8],
        value: &[u8],
        is_new: bool,
    ) -> Result<(), Error> {
        ops.store(&self.name(member), value)?;
        self.count(ops, member, i64::from(is_new))
    }

    /// Deletes a member that is there, and returns what it had.
    pub(crate) fn delete(&mut self, ops: &mut Ops<'_, '_>, member: &[u8]) -> Result<Value, Error> {
        let had = ops.remove(&self.name(member))?.ok_or_else(|| foreign(self.key))?;
        self.count(ops, member, -1)?;
        Ok(had)
    }

    /// Invariant 2.
    fn count(&mut self, ops: &mut Ops<'_, '_>, member: &[u8], by: i64) -> Result<(), Error> {
        if !self.header.is_wide {
            self.header.count = self.header.count.saturating_add_signed(by);
            self.has_changed = true;
            return Ok(());
        }
        let lanes = lanes::count(ops, self.header.incarnation, lanes::of(member), by)?;
        if lanes != 0 {
            self.header.count = self.header.count.saturating_add_signed(lanes);
            self.has_changed = true;
        }
        Ok(())
    }

    /// How many members it has.
    pub(crate) fn len(&self, ops: &mut Ops<'_, '_>) -> Result<u64, Error> {
        if self.header.is_wide { lanes::sum(ops, self.header.incarnation) } else { Ok(self.header.count) }
    }

    /// Shows members and what they have, in the order of the members, until `see` says that it has
    /// seen enough.
    pub(crate) fn members(
        &self,
        ops: &mut Ops<'_, '_>,
        range: &Range<Name>,
        descending: bool,
        mut see: impl FnMut(&[u8], &[u8]) -> Enough,
    ) -> Result<(), Error> {
        self.all_are_read(ops)?;
        for entry in ops.entries(range, descending) {
            let (name, value) = entry?;
            let member = names::member_in(&name).ok_or_else(|| foreign(self.key))?;
            if see(member, &value) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }

    /// The names of all members.
    pub(crate) fn all(&self) -> Range<Name> {
        names::all_of(MEMBERS, self.header.incarnation)
    }

    /// The names of the members behind this one.
    pub(crate) fn behind(&self, member: &[u8]) -> Range<Name> {
        let mut next = self.name(member);
        next.push(0);
        next..self.all().end
    }

    /// The names of the members from this one on.
    pub(crate) fn from(&self, member: &[u8]) -> Name {
        self.name(member)
    }

    /// Invariant 4.
    fn all_are_read(&self, ops: &mut Ops<'_, '_>) -> Result<(), Error> {
        if self.header.is_wide { lanes::all_are_read(ops, self.header.incarnation) } else { Ok(()) }
    }

    /// Whether it becomes wide by what has changed.
    fn is_to_widen(&self) -> bool {
        !self.header.is_wide && self.header.count > SMALL_MAX
    }

    /// Writes the header, if something has changed. Every command that has written a member ends
    /// with this.
    pub(crate) fn finish(mut self, ops: &mut Ops<'_, '_>) -> Result<(), Error> {
        if !self.has_changed {
            return Ok(());
        }
        if self.header.count == 0 {
            // Invariant 1. A new collection was never there; but something that has expired may be.
            return if self.is_new { Ok(()) } else { ops.remove_header(self.key) };
        }
        if self.is_to_widen() {
            self.header.count = lanes::widen(ops, self.header.incarnation)?;
            self.header.is_wide = true;
        }
        if self.is_new {
            ops.put_collection(self.key, self.kind, None, self.header)
        } else {
            ops.put_header(self.key, self.kind, self.expires_ms, self.header)
        }
    }
}

/// What WATCH remembers of a key: different after each change of it, or of a member of the
/// collection that it has.
pub(crate) fn watched(ops: &mut Ops<'_, '_>, key: &[u8]) -> Result<Option<u64>, Error> {
    let Some(found) = ops.get(key)? else { return Ok(None) };
    Ok(Some(match found.header() {
        // A small one's header is written with each member (Invariant 2).
        Some(header) if header.is_wide => {
            lanes::all_are_read(ops, header.incarnation)?;
            lanes::digest(ops, header.incarnation)?.wrapping_add(found.stamp())
        }
        _ => found.stamp(),
    }))
}
