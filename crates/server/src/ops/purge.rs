//! What no client sees any more is deleted, some at a time: keys of generations before, and members
//! of dead collections, which their tombstones tell.

use super::{Ops, take};
use crate::names::{self, LANES, MEMBERS, Name, ORDER, TOMBSTONES};
use manx::txn::{Error, Value};
use std::ops::Range;

/// The maximum number of members that a purge deletes.
const PURGE_MAX: usize = 1_000;

impl Ops<'_, '_> {
    /// Deletes some keys of the generations before. Returns whether there may be more.
    pub(crate) fn purge_keys(&mut self) -> Result<bool, Error> {
        for range in names::keys_before(self.generation) {
            let entries = self.entries(&range, false).take(PURGE_MAX);
            let names: Vec<Value> = entries.map(|entry| Ok(entry?.0)).collect::<Result<_, Error>>()?;
            for name in &names {
                let had = take(self.txn, &mut self.bytes, name)?;
                self.drop_members(had)?;
            }
            if !names.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes some members of dead collections. Returns whether there may be more.
    pub(crate) fn purge(&mut self) -> Result<bool, Error> {
        let Some((tombstone, _)) = self.entries(&names::all(TOMBSTONES), false).next().transpose()? else {
            return Ok(false);
        };
        if let Some(incarnation) = names::incarnation_in(&tombstone) {
            for (space, most) in [(LANES, usize::MAX), (ORDER, PURGE_MAX), (MEMBERS, PURGE_MAX)] {
                if self.remove_all(&names::all_of(space, incarnation), most)? > 0 {
                    return Ok(true);
                }
            }
        }
        self.remove(&tombstone)?;
        Ok(true)
    }

    /// Deletes up to `most` entries. Returns how many it has deleted.
    pub(super) fn remove_all(&mut self, range: &Range<Name>, most: usize) -> Result<usize, Error> {
        let entries = self.entries(range, false).take(most);
        let names: Vec<Value> = entries.map(|entry| Ok(entry?.0)).collect::<Result<_, Error>>()?;
        names.iter().try_for_each(|name| self.remove(name).map(drop))?;
        Ok(names.len())
    }
}
