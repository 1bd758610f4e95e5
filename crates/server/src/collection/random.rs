//! Members at random.
//!
//! | members | how they are chosen | |
//! | --- | --- | --- |
//! | up to [`WALKED_MAX`], or an eighth of them at least is asked for | one walk over all, which takes each with the odds that are left (Knuth, "The Art of Computer Programming", 3.4.2, algorithm S) | each choice is as likely as any other |
//! | more | the first member behind a random place in their order | a member behind a gap comes more often |
//!
//! A walk over millions for each member would take as long as all other commands together. A place
//! is what all members begin with, and then bytes between the lowest and the highest that the first
//! and the last member have there: so numbers and names in one form are met about evenly.

use super::Collection;
use crate::ops::{Enough, Ops};
use manx::txn::Error;
use std::collections::BTreeSet;

/// Up to this number of members all are walked over.
pub(crate) const WALKED_MAX: u64 = if cfg!(test) { 16 } else { 4_096 };
/// The bytes of a random place behind what all members begin with.
const PLACE_BYTES: usize = 8;

/// A first member and a last one.
type Ends = (Vec<u8>, Vec<u8>);

impl Collection<'_> {
    /// Different members at random: `count`, or all if there are fewer.
    pub(crate) fn choose(&self, ops: &mut Ops<'_, '_>, count: u64) -> Result<Vec<Vec<u8>>, Error> {
        let len = self.len(ops)?;
        if len <= WALKED_MAX || count >= len / 8 {
            return self.walk(ops, count.min(len), len);
        }
        let Some((first, last)) = self.ends(ops)? else { return Ok(Vec::new()) };
        let mut chosen = BTreeSet::new();
        while (chosen.len() as u64) < count {
            let place = place(&first, &last);
            let (mut behind, mut before) = (None, None);
            let find = |found: &mut Option<Vec<u8>>, member: &[u8]| {
                if chosen.contains(member) {
                    return Enough::No;
                }
                *found = Some(member.to_vec());
                Enough::Yes
            };
            let range = self.from(&place)..self.all().end;
            self.members(ops, &range, false, |member, _| find(&mut behind, member))?;
            if behind.is_none() {
                self.members(ops, &self.all(), false, |member, _| find(&mut before, member))?;
            }
            match behind.or(before) {
                Some(member) => chosen.insert(member),
                None => break,
            };
        }
        Ok(chosen.into_iter().collect())
    }

    fn walk(&self, ops: &mut Ops<'_, '_>, count: u64, len: u64) -> Result<Vec<Vec<u8>>, Error> {
        let (mut chosen, mut wanted, mut left) = (Vec::new(), count, len);
        if wanted == 0 {
            return Ok(chosen);
        }
        self.members(ops, &self.all(), false, |member, _| {
            if fastrand::u64(..left.max(1)) < wanted {
                chosen.push(member.to_vec());
                wanted -= 1;
            }
            left = left.saturating_sub(1);
            if wanted == 0 { Enough::Yes } else { Enough::No }
        })?;
        Ok(chosen)
    }

    /// The first member and the last one.
    fn ends(&self, ops: &mut Ops<'_, '_>) -> Result<Option<Ends>, Error> {
        let mut ends = Vec::new();
        for descending in [false, true] {
            self.members(ops, &self.all(), descending, |member, _| {
                ends.push(member.to_vec());
                Enough::Yes
            })?;
        }
        let last = ends.pop();
        Ok(ends.pop().zip(last))
    }
}

/// A random place between two members, or two keys.
pub(crate) fn place(first: &[u8], last: &[u8]) -> Vec<u8> {
    let common = first.iter().zip(last).take_while(|(one, other)| one == other).count();
    let rest = first[common..].iter().chain(&last[common..]);
    let (low, high) = rest.fold((u8::MAX, u8::MIN), |(low, high), &byte| (low.min(byte), high.max(byte)));
    let mut place = first[..common].to_vec();
    place.extend((0..PLACE_BYTES).map(|_| fastrand::u8(low.min(high)..=high)));
    place
}
