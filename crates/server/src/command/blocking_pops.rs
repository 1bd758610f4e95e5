//! BLPOP and the like: elements of the first list or sorted set, of several keys, that is there;
//! and BLMOVE.

use super::definition::{Asked, Looked};
use super::{lists, pop_first, sorted_ranges};
use crate::collection::{List, Side, SortedSet};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::scores;
use crate::value::Kind;
use std::time::Duration;

/// What an argument says about how long a client waits; for ever, if it says 0.
fn timeout(arg: &[u8]) -> Result<Option<Duration>, Fault> {
    let seconds = scores::score(arg).ok_or("ERR timeout is not a float or out of range")?;
    // Redis rounds up to milliseconds.
    let ms = (seconds * 1000.0).ceil();
    if ms > i64::MAX as f64 {
        return Err("ERR timeout is out of range".into());
    }
    if ms < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    Ok((ms > 0.0).then(|| Duration::from_millis(ms as u64)))
}

fn last(args: Args<'_>) -> Result<Option<Duration>, Fault> {
    timeout(&args[args.len() - 1])
}

fn looked(is_found: bool, kind: Kind, timeout: Option<Duration>) -> Looked {
    if is_found { Looked::Found } else { Looked::Nothing { kind, timeout } }
}

pub(super) fn pop(
    ops: &mut Ops<'_, '_>,
    asked: Asked<'_>,
    side: Side,
    out: &mut Replies,
) -> Result<Looked, Fault> {
    let args = asked.args;
    let timeout = last(args)?;
    for key in args.from(1).take(args.len() - 2) {
        if let Some(mut list) = asked.found(List::find(ops, key))? {
            out.array(2);
            out.bulk(key);
            out.bulk_or_null(list.pop(ops, side)?.as_deref());
            list.finish(ops)?;
            return Ok(Looked::Found);
        }
    }
    out.null_array();
    Ok(looked(false, Kind::List, timeout))
}

pub(super) fn pop_scored(
    ops: &mut Ops<'_, '_>,
    asked: Asked<'_>,
    is_max: bool,
    out: &mut Replies,
) -> Result<Looked, Fault> {
    let args = asked.args;
    let timeout = last(args)?;
    for key in args.from(1).take(args.len() - 2) {
        if let Some(set) = asked.found(SortedSet::find(ops, key))? {
            out.array(3);
            out.bulk(key);
            for (member, score) in sorted_ranges::pop_some(ops, set, is_max, 1)? {
                out.bulk(&member);
                out.double(score);
            }
            return Ok(Looked::Found);
        }
    }
    out.null_array();
    Ok(looked(false, Kind::SortedSet, timeout))
}

/// What stands behind the time in BLMPOP and BZMPOP, and that time, which is looked at last.
fn counted<'a>(asked: Asked<'a>, ends: [&str; 2]) -> Result<(Asked<'a>, Option<Duration>), Fault> {
    let rest = asked.args.behind(1);
    pop_first::Wanted::read(rest, ends)?;
    Ok((Asked { args: rest, ..asked }, timeout(&asked.args[1])?))
}

pub(super) fn lists(ops: &mut Ops<'_, '_>, asked: Asked<'_>, out: &mut Replies) -> Result<Looked, Fault> {
    let (asked, timeout) = counted(asked, pop_first::SIDES)?;
    Ok(looked(pop_first::pop_list(ops, asked, out)?, Kind::List, timeout))
}

pub(super) fn sorted_sets(
    ops: &mut Ops<'_, '_>,
    asked: Asked<'_>,
    out: &mut Replies,
) -> Result<Looked, Fault> {
    let (asked, timeout) = counted(asked, pop_first::ENDS)?;
    Ok(looked(pop_first::pop_sorted_set(ops, asked, out)?, Kind::SortedSet, timeout))
}

pub(super) fn blmove(ops: &mut Ops<'_, '_>, asked: Asked<'_>, out: &mut Replies) -> Result<Looked, Fault> {
    let (from, to) = (lists::side(&asked.args[3])?, lists::side(&asked.args[4])?);
    move_element(ops, asked, from, to, out)
}

pub(super) fn move_element(
    ops: &mut Ops<'_, '_>,
    asked: Asked<'_>,
    from: Side,
    to: Side,
    out: &mut Replies,
) -> Result<Looked, Fault> {
    let timeout = last(asked.args)?;
    let found = asked.found(List::find(ops, &asked.args[1]))?;
    let is_found = found.is_some();
    lists::move_from(ops, found, asked.args, from, to, out)?;
    Ok(looked(is_found, Kind::List, timeout))
}
