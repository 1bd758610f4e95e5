//! How much memory the entries of a collection take.

use super::Collection;
use crate::memory;
use crate::names::{self, LANES, MEMBERS, ORDER};
use crate::ops::Ops;
use crate::value::Kind;
use manx::txn::Error;

impl Collection<'_> {
    /// What its members take, and its lanes or ends, if it has some. Of each kind, the first
    /// `samples` entries stand for the others.
    pub(crate) fn memory_bytes(&self, ops: &mut Ops<'_, '_>, samples: u64) -> Result<u64, Error> {
        let members = self.len(ops)?;
        let ordered = match self.kind {
            Kind::SortedSet => members,
            Kind::List => 2,
            _ => 0,
        };
        let lanes = if self.header.is_wide { self.header.count } else { 0 };
        self.all_are_read(ops)?;
        let mut all = 0;
        for (space, count) in [(MEMBERS, members), (ORDER, ordered), (LANES, lanes)] {
            let (mut sampled, mut bytes) = (0, 0);
            for entry in ops.entries(&names::all_of(space, self.header.incarnation), false) {
                if sampled == samples.min(count) {
                    break;
                }
                let (name, value) = entry?;
                bytes += memory::growth(&name, None, Some(value.len()));
                sampled += 1;
            }
            all += u128::from(bytes.unsigned_abs()) * u128::from(count) / u128::from(sampled.max(1));
        }
        Ok(u64::try_from(all).unwrap_or(u64::MAX))
    }
}
