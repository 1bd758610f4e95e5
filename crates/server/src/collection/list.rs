//! A list: a collection whose members are positions, without a gap, each with an element.
//!
//! ```text
//!   positions      -2   -1    0    1    2
//!   elements        a    b    c    d    e
//!                   ▲ first                  ▲ end
//! ```
//!
//! Each writer of a small list writes its header. So the header also says where the list begins,
//! and thereby where it ends. Then a push writes two names and not three, and a new list of one
//! element takes two names and not four. A wide list has its two *ends apart*, each under a name of
//! its own. So has each list that a server wrote before December 2026.
//!
//! Invariants:
//! 1. The list has an element at each position from `first` to before `end`, and nowhere else. So
//!    an element is found by its index at once.
//! 2. A transaction that adds or removes elements on one side writes that side's end, or the header
//!    that has it. So two transactions that do so on the same side conflict, also if they write
//!    different positions: one that pops the last element, and one that pushes behind it. On
//!    different sides of a wide list they conflict only if they meet in an element, in a lane, or
//!    in the header.
//! 3. A list has its ends apart, or its header has `first` and counts its elements: never both, and
//!    a wide list never the second. It is so before and after each transaction.

use super::Collection;
use crate::fault::Fault;
use crate::names::{self, Name};
use crate::ops::{Enough, Ops, foreign};
use crate::value::{Header, Kind};
use manx::txn::{Error, Value};
use std::ops::Range;

#[cfg(test)]
mod tests;

/// A side of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// A list, in a transaction.
#[derive(Debug)]
pub(crate) struct List<'k> {
    members: Collection<'k>,
    first: i64,
    end: i64,
    /// Which sides' ends have changed.
    moved: [bool; 2],
}

/// The member of a position: positions are in order.
fn member(position: i64) -> [u8; 8] {
    (position as u64 ^ 1 << 63).to_be_bytes()
}

impl<'k> List<'k> {
    pub(crate) fn find(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<Option<List<'k>>, Fault> {
        let found = Collection::find(ops, key, Kind::List)?;
        Ok(found.map(|members| List::of(ops, members)).transpose()?)
    }

    pub(crate) fn find_or_make(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<List<'k>, Fault> {
        let mut members = Collection::find_or_make(ops, key, Kind::List)?;
        if members.is_new {
            members.header.first = Some(0);
        }
        Ok(List::of(ops, members)?)
    }

    fn of(ops: &mut Ops<'_, '_>, members: Collection<'k>) -> Result<List<'k>, Error> {
        let mut list = List { members, first: 0, end: 0, moved: [false; 2] };
        // Invariant 3.
        (list.first, list.end) = match list.members.header {
            Header { first: Some(first), count, .. } => (first, first.saturating_add_unsigned(count)),
            _ => (list.load_end(ops, Side::Left)?, list.load_end(ops, Side::Right)?),
        };
        Ok(list)
    }

    /// The name of a side's end, if that is apart.
    fn end_name(&self, side: Side) -> Name {
        names::ordered(self.members.header.incarnation, side as u64, b"")
    }

    fn load_end(&self, ops: &mut Ops<'_, '_>, side: Side) -> Result<i64, Error> {
        let name = self.end_name(side);
        if self.members.header.is_wide && ops.remembers() {
            ops.was_read(&name);
        }
        let end = ops.load(&name)?.filter(|end| end.len() == 8);
        end.map(|end| names::number(&end) as i64).ok_or_else(|| foreign(self.members.key))
    }

    pub(crate) fn len(&self) -> i64 {
        self.end - self.first
    }

    /// The position of an index, which counts from the end if it is negative; none outside.
    fn position(&self, index: i64) -> Option<i64> {
        let from = if index < 0 { self.end } else { self.first };
        from.checked_add(index).filter(|position| (self.first..self.end).contains(position))
    }

    fn load(&self, ops: &mut Ops<'_, '_>, position: i64) -> Result<Value, Error> {
        // Invariant 1.
        self.members.get(ops, &member(position))?.ok_or_else(|| foreign(self.members.key))
    }

    pub(crate) fn get(&self, ops: &mut Ops<'_, '_>, index: i64) -> Result<Option<Value>, Error> {
        self.position(index).map(|position| self.load(ops, position)).transpose()
    }

    /// Replaces an element; returns whether there is one.
    pub(crate) fn set(&mut self, ops: &mut Ops<'_, '_>, index: i64, element: &[u8]) -> Result<bool, Error> {
        let Some(position) = self.position(index) else { return Ok(false) };
        self.members.put(ops, &member(position), element, false)?;
        Ok(true)
    }

    pub(crate) fn push(&mut self, ops: &mut Ops<'_, '_>, side: Side, element: &[u8]) -> Result<(), Error> {
        let position = match side {
            Side::Left => {
                self.first -= 1;
                self.first
            }
            Side::Right => {
                self.end += 1;
                self.end - 1
            }
        };
        self.moved[side as usize] = true;
        self.members.put(ops, &member(position), element, true)
    }

    pub(crate) fn pop(&mut self, ops: &mut Ops<'_, '_>, side: Side) -> Result<Option<Value>, Error> {
        if self.len() == 0 { Ok(None) } else { self.cut(ops, side).map(Some) }
    }

    /// Removes the element at a side, of a list that has some, and returns it.
    pub(crate) fn cut(&mut self, ops: &mut Ops<'_, '_>, side: Side) -> Result<Value, Error> {
        let position = match side {
            Side::Left => {
                self.first += 1;
                self.first - 1
            }
            Side::Right => {
                self.end -= 1;
                self.end
            }
        };
        self.moved[side as usize] = true;
        self.members.delete(ops, &member(position))
    }

    /// The indexes of a range that a client has asked for, both ends included: an empty range if
    /// there are none.
    pub(crate) fn range(&self, from: i64, to: i64) -> Range<i64> {
        let index = |at: i64| if at < 0 { at.saturating_add(self.len()) } else { at };
        let (from, to) = (index(from).max(0), index(to).min(self.len() - 1));
        if from > to { 0..0 } else { from..to + 1 }
    }

    /// Shows the elements of some indexes in their order, or from the last to the first, until
    /// `see` says that it has seen enough. `see` gets the index too.
    pub(crate) fn elements(
        &self,
        ops: &mut Ops<'_, '_>,
        indexes: Range<i64>,
        descending: bool,
        mut see: impl FnMut(i64, &[u8]) -> Enough,
    ) -> Result<(), Error> {
        let name = |index: i64| self.members.from(&member(self.first + index));
        let mut next = if descending { indexes.end - 1 } else { indexes.start };
        self.members.members(ops, &(name(indexes.start)..name(indexes.end)), descending, |_, element| {
            // Invariant 1.
            let index = next;
            next += if descending { -1 } else { 1 };
            see(index, element)
        })
    }

    /// Inserts an element so that it has this index: those on the shorter side move by one.
    pub(crate) fn insert(&mut self, ops: &mut Ops<'_, '_>, index: i64, element: &[u8]) -> Result<(), Error> {
        let side = if index <= self.len() / 2 { Side::Left } else { Side::Right };
        if self.len() == 0 || index == 0 || index == self.len() {
            let side = if index == 0 { Side::Left } else { Side::Right };
            return self.push(ops, side, element);
        }
        // A copy of the outermost one, and then each takes the place of its outer neighbour.
        let moving = match side {
            Side::Left => self.copy(ops, 0..index)?,
            Side::Right => self.copy(ops, index..self.len())?,
        };
        match side {
            Side::Left => {
                self.push(ops, side, &moving[0])?;
                for (index, element) in moving.iter().enumerate().skip(1) {
                    self.set(ops, index as i64, element)?;
                }
            }
            Side::Right => {
                self.push(ops, side, &moving[moving.len() - 1])?;
                for (behind, element) in moving[..moving.len() - 1].iter().enumerate() {
                    self.set(ops, index + 1 + behind as i64, element)?;
                }
            }
        }
        self.set(ops, index, element).map(drop)
    }

    /// Keeps the elements of these indexes, which are in order, and removes all others.
    pub(crate) fn keep(&mut self, ops: &mut Ops<'_, '_>, indexes: &[i64]) -> Result<(), Error> {
        for (at, &index) in indexes.iter().enumerate() {
            if at as i64 != index {
                let element = self.load(ops, self.first + index)?;
                self.set(ops, at as i64, &element)?;
            }
        }
        while self.len() > indexes.len() as i64 {
            self.cut(ops, Side::Right)?;
        }
        Ok(())
    }

    fn copy(&self, ops: &mut Ops<'_, '_>, indexes: Range<i64>) -> Result<Vec<Vec<u8>>, Error> {
        let mut copy = Vec::new();
        self.elements(ops, indexes, false, |_, element| {
            copy.push(element.to_vec());
            Enough::No
        })?;
        Ok(copy)
    }

    /// Writes the ends and the header, if something has changed. Every command that has changed the
    /// list ends with this.
    pub(crate) fn finish(mut self, ops: &mut Ops<'_, '_>) -> Result<(), Error> {
        // Invariant 3.
        if self.members.header.first.is_some() {
            if !self.members.is_to_widen() {
                self.members.header.first = Some(self.first);
                return self.members.finish(ops);
            }
            self.members.header.first = None;
            self.moved = [true; 2];
        }
        for (side, end) in [(Side::Left, self.first), (Side::Right, self.end)] {
            let name = self.end_name(side);
            if self.len() == 0 {
                // The header goes, too.
                ops.remove(&name)?;
            } else if self.moved[side as usize] {
                ops.store(&name, &(end as u64).to_be_bytes())?;
            }
        }
        self.members.finish(ops)
    }
}
