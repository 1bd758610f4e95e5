//! A copy of a collection: another incarnation, with the same members.

use super::lanes;
use crate::names::{self, LANES, MEMBERS, ORDER};
use crate::ops::Ops;
use crate::value::Header;
use manx::txn::{Error, Value};

/// Copies the members of the collection with this header. Returns the header of the copy.
pub(crate) fn copy(ops: &mut Ops<'_, '_>, header: Header) -> Result<Header, Error> {
    if header.is_wide {
        // Invariant 4 of the collections.
        lanes::all_are_read(ops, header.incarnation)?;
    }
    let incarnation = ops.new_incarnation();
    // The lanes' stamps are those of the original. WATCH adds that of the copy's own header.
    for space in [MEMBERS, ORDER, LANES] {
        let entries = ops.entries(&names::all_of(space, header.incarnation), false);
        let entries: Vec<(Value, Value)> = entries.collect::<Result<_, _>>()?;
        for (name, value) in &entries {
            ops.store(&names::in_incarnation(incarnation, name), value)?;
        }
    }
    Ok(Header { incarnation, ..header })
}
