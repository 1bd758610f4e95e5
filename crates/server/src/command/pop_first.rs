//! LMPOP and ZMPOP: elements of the first list or sorted set, of several keys, that is there.

use super::definition::Asked;
use super::lists;
use super::sorted_ranges;
use super::syntax::{SYNTAX, at_least, is, number_of_keys};
use crate::collection::{List, Side, SortedSet};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

/// What is asked for.
pub(super) struct Wanted {
    keys: usize,
    /// Of the two ends that the command names.
    is_second_end: bool,
    count: i64,
}

impl Wanted {
    pub(super) fn read(args: Args<'_>, ends: [&str; 2]) -> Result<Wanted, Fault> {
        let keys = number_of_keys(&args[1])?;
        let end = args.get(keys.saturating_add(2)).ok_or(SYNTAX)?;
        let is_second_end = is(end, ends[1]);
        if !is_second_end && !is(end, ends[0]) {
            return Err(SYNTAX.into());
        }
        let (mut words, mut count) = (args.from(keys + 3), None);
        while let Some(word) = words.next() {
            match words.next() {
                Some(number) if count.is_none() && is(word, "count") => {
                    count = Some(at_least(1, number, "ERR count should be greater than 0")?);
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(Wanted { keys, is_second_end, count: count.unwrap_or(1) })
    }
}

pub(super) fn lists(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    pop_list(ops, Asked { args, again: false }, out).map(drop)
}

pub(super) fn sorted_sets(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    pop_sorted_set(ops, Asked { args, again: false }, out).map(drop)
}

pub(super) const SIDES: [&str; 2] = ["left", "right"];
pub(super) const ENDS: [&str; 2] = ["min", "max"];

/// Returns whether there is one.
pub(super) fn pop_list(ops: &mut Ops<'_, '_>, asked: Asked<'_>, out: &mut Replies) -> Result<bool, Fault> {
    let Wanted { keys, is_second_end, count } = Wanted::read(asked.args, SIDES)?;
    for key in asked.args.from(2).take(keys) {
        if let Some(list) = asked.found(List::find(ops, key))? {
            out.array(2);
            out.bulk(key);
            let side = if is_second_end { Side::Right } else { Side::Left };
            lists::pop_some(ops, list, side, count, out)?;
            return Ok(true);
        }
    }
    out.null_array();
    Ok(false)
}

/// Returns whether there is one.
pub(super) fn pop_sorted_set(
    ops: &mut Ops<'_, '_>,
    asked: Asked<'_>,
    out: &mut Replies,
) -> Result<bool, Fault> {
    let Wanted { keys, is_second_end, count } = Wanted::read(asked.args, ENDS)?;
    for key in asked.args.from(2).take(keys) {
        if let Some(set) = asked.found(SortedSet::find(ops, key))? {
            out.array(2);
            out.bulk(key);
            let found = sorted_ranges::pop_some(ops, set, is_second_end, count)?;
            sorted_ranges::show(&found, true, true, out);
            return Ok(true);
        }
    }
    out.null_array();
    Ok(false)
}
