//! Sorted sets: members, and the same members once more in the order of their scores.
//!
//! A score's *place* is a number of 64 bits that is in order as the score is: the bits of a double,
//! turned around if it is negative. So a range of scores is a range of names. Both zeros have the
//! same place, since they are equal.

use super::Collection;
use crate::fault::Fault;
use crate::names::{self, Name};
use crate::ops::{Enough, Ops, foreign};
use crate::value::Kind;
use manx::txn::{Error, Value};
use std::ops::Range;

/// Where a score stands among all.
fn place(score: f64) -> u64 {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The score that stands there.
fn at_place(place: u64) -> f64 {
    f64::from_bits(if place >> 63 == 1 { place & !(1 << 63) } else { !place })
}

/// Some of all scores: from a place to another, which is not included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scores(u64, u64);

impl Scores {
    /// From one score to another; each of the two may be excluded.
    pub(crate) fn between((from, from_excluded): (f64, bool), (to, to_excluded): (f64, bool)) -> Scores {
        Scores(place(from) + u64::from(from_excluded), place(to) + u64::from(!to_excluded))
    }

    pub(crate) fn all() -> Scores {
        Scores::between((f64::NEG_INFINITY, false), (f64::INFINITY, false))
    }
}

/// A sorted set, in a transaction.
#[derive(Debug)]
pub(crate) struct SortedSet<'k>(pub(crate) Collection<'k>);

impl<'k> SortedSet<'k> {
    pub(crate) fn find(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<Option<SortedSet<'k>>, Fault> {
        Ok(Collection::find(ops, key, Kind::SortedSet)?.map(SortedSet))
    }

    pub(crate) fn find_or_make(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<SortedSet<'k>, Fault> {
        Collection::find_or_make(ops, key, Kind::SortedSet).map(SortedSet)
    }

    /// The score in what a member has.
    pub(crate) fn score_in(value: &[u8]) -> f64 {
        f64::from_bits(names::number(value))
    }

    pub(crate) fn score(&self, ops: &mut Ops<'_, '_>, member: &[u8]) -> Result<Option<f64>, Error> {
        Ok(self.0.get(ops, member)?.map(|value: Value| SortedSet::score_in(&value)))
    }

    fn name(&self, score: f64, member: &[u8]) -> Name {
        names::ordered(self.0.header.incarnation, place(score), member)
    }

    /// Gives the member a score; `old` is its present score.
    pub(crate) fn put(
        &mut self,
        ops: &mut Ops<'_, '_>,
        member: &[u8],
        score: f64,
        old: Option<f64>,
    ) -> Result<(), Error> {
        if let Some(old) = old {
            ops.remove(&self.name(old, member))?;
        }
        // −0 becomes 0.
        let score = score + 0.0;
        ops.store(&self.name(score, member), b"")?;
        self.0.put(ops, member, &score.to_bits().to_be_bytes(), old.is_none())
    }

    /// Deletes a member that has this score.
    pub(crate) fn delete(&mut self, ops: &mut Ops<'_, '_>, member: &[u8], score: f64) -> Result<(), Error> {
        ops.remove(&self.name(score, member))?;
        self.0.delete(ops, member).map(drop)
    }

    fn names(&self, Scores(from, to): Scores) -> Range<Name> {
        let name = |place| names::ordered(self.0.header.incarnation, place, b"");
        name(from)..name(to)
    }

    /// Shows members and their scores, in the order of the scores, until `see` says that it has
    /// seen enough.
    pub(crate) fn in_order(
        &self,
        ops: &mut Ops<'_, '_>,
        scores: Scores,
        descending: bool,
        mut see: impl FnMut(&[u8], f64) -> Enough,
    ) -> Result<(), Error> {
        self.0.all_are_read(ops)?;
        for entry in ops.entries(&self.names(scores), descending) {
            let (name, _) = entry?;
            let (place, member) = names::ordered_in(&name).ok_or_else(|| foreign(self.0.key))?;
            if see(member, at_place(place)) == Enough::Yes {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_scores() {
        let scores =
            [f64::NEG_INFINITY, -1e300, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY];
        assert!(scores.map(place).is_sorted_by(|a, b| a < b));
        for score in scores {
            assert_eq!(at_place(place(score)), score);
        }
        assert_eq!(place(-0.0), place(0.0));
    }
}
