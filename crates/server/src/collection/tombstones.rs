//! Members without a collection: theirs was deleted, was replaced, or has expired.
//!
//! A few are deleted at once. Of more, only a mark is written, in the transaction that buries the
//! collection; so that takes the same time for millions. The housekeeping finds the marks, also
//! after a restart, and deletes the members, some at a time: first all lanes, so that no member can
//! come any more (Invariant 3 of the collections), and the mark last.

use crate::names::{self, LANES, MEMBERS, Name, ORDER, TOMBSTONES};
use crate::ops::Ops;
use crate::value::Header;
use manx::txn::{Error, Value};
use std::ops::Range;

/// The maximum number of members that are deleted at once.
const AT_ONCE_MAX: u64 = if cfg!(test) { 4 } else { 32 };
/// The number of entries that are deleted in a transaction.
const PIECE: usize = 1_000;

/// Marks the collection's members as dead, or deletes them at once if they are few.
pub(crate) fn drop_members(ops: &mut Ops<'_, '_>, header: Header) -> Result<(), Error> {
    let Header { incarnation, count, is_wide } = header;
    if is_wide || count > AT_ONCE_MAX {
        return ops.store(&names::tombstone(incarnation), b"");
    }
    // Every writer of a small collection's member writes the header too, so each member is seen.
    for space in [MEMBERS, ORDER] {
        delete(ops, &names::all_of(space, incarnation), usize::MAX)?;
    }
    Ok(())
}

/// Deletes some members of dead collections. Returns whether there may be more.
pub(crate) fn purge(ops: &mut Ops<'_, '_>) -> Result<bool, Error> {
    let Some(mark) = ops.entries(&names::all(TOMBSTONES), false).next().transpose()? else {
        return Ok(false);
    };
    let Some(incarnation) = names::incarnation_in(&mark.0) else {
        ops.remove(&mark.0)?;
        return Ok(true);
    };
    for (space, most) in [(LANES, usize::MAX), (ORDER, PIECE), (MEMBERS, PIECE)] {
        if delete(ops, &names::all_of(space, incarnation), most)? > 0 {
            return Ok(true);
        }
    }
    ops.remove(&mark.0)?;
    Ok(true)
}

/// Deletes up to `most` entries. Returns how many it has deleted.
fn delete(ops: &mut Ops<'_, '_>, range: &Range<Name>, most: usize) -> Result<usize, Error> {
    let found: Result<Vec<Value>, Error> =
        ops.entries(range, false).take(most).map(|entry| Ok(entry?.0)).collect();
    let found = found?;
    found.iter().try_for_each(|name| ops.remove(name))?;
    Ok(found.len())
}
