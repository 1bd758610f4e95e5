//! Sets: members without values.

use super::syntax::{SYNTAX, count_asked_for, is, limit, number_of_keys};
use crate::collection::Collection;
use crate::fault::Fault;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::value::Kind;
use std::collections::BTreeSet;

fn find<'k>(ops: &mut Ops<'_, '_>, key: &'k [u8]) -> Result<Option<Collection<'k>>, Fault> {
    Collection::find(ops, key, Kind::Set)
}

fn has(ops: &mut Ops<'_, '_>, set: Option<&Collection<'_>>, member: &[u8]) -> Result<bool, Fault> {
    match set {
        Some(set) => Ok(set.get(ops, member)?.is_some()),
        None => Ok(false),
    }
}

/// All members, in their order.
fn members(ops: &mut Ops<'_, '_>, set: &Collection<'_>) -> Result<BTreeSet<Vec<u8>>, Fault> {
    let mut members = BTreeSet::new();
    set.members(ops, &set.all(), false, |member, _| {
        members.insert(member.to_vec());
        Enough::No
    })?;
    Ok(members)
}

/// Adds members; returns how many are new.
fn add<'m>(ops: &mut Ops<'_, '_>, key: &[u8], members: impl Iterator<Item = &'m [u8]>) -> Result<i64, Fault> {
    let mut set = Collection::find_or_make(ops, key, Kind::Set)?;
    let mut added = 0;
    for member in members {
        if set.get(ops, member)?.is_none() {
            set.put(ops, member, b"", true)?;
            added += 1;
        }
    }
    set.finish(ops)?;
    Ok(added)
}

/// Removes members that are there.
fn remove(ops: &mut Ops<'_, '_>, mut set: Collection<'_>, members: &[Vec<u8>]) -> Result<(), Fault> {
    for member in members {
        set.delete(ops, member)?;
    }
    Ok(set.finish(ops)?)
}

pub(super) fn sadd(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.integer(add(ops, &args[1], args.from(2))?);
    Ok(())
}

pub(super) fn srem(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut removed = 0;
    if let Some(mut set) = find(ops, &args[1])? {
        for member in args.from(2) {
            if set.get(ops, member)?.is_some() {
                set.delete(ops, member)?;
                removed += 1;
            }
        }
        set.finish(ops)?;
    }
    out.integer(removed);
    Ok(())
}

pub(super) fn sismember(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let set = find(ops, &args[1])?;
    out.integer(has(ops, set.as_ref(), &args[2])?.into());
    Ok(())
}

pub(super) fn smismember(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let set = find(ops, &args[1])?;
    out.array(args.len() - 2);
    for member in args.from(2) {
        out.integer(has(ops, set.as_ref(), member)?.into());
    }
    Ok(())
}

pub(super) fn scard(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let length = match find(ops, &args[1])? {
        Some(set) => set.len(ops)?,
        None => 0,
    };
    out.integer(length as i64);
    Ok(())
}

pub(super) fn smembers(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let Some(set) = find(ops, &args[1])? else {
        out.set(0);
        return Ok(());
    };
    out.set(set.len(ops)? as usize);
    set.members(ops, &set.all(), false, |member, _| {
        out.bulk(member);
        if out.is_over() { Enough::Yes } else { Enough::No }
    })?;
    Ok(())
}

pub(super) fn smove(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (from, to, member) = (&args[1], &args[2], &args[3]);
    let moved = match find(ops, from)? {
        None => false,
        Some(set) => {
            find(ops, to)?;
            let is_there = has(ops, Some(&set), member)?;
            if is_there && from != to {
                remove(ops, set, &[member.to_vec()])?;
                add(ops, to, std::iter::once(member))?;
            }
            is_there
        }
    };
    out.integer(moved.into());
    Ok(())
}

fn show(out: &mut Replies, members: &[Vec<u8>]) {
    out.set(members.len());
    for member in members {
        if out.is_over() {
            break;
        }
        out.bulk(member);
    }
}

pub(super) fn spop(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let wanted = count_asked_for(args)?.ok_or(SYNTAX)?.map(i64::unsigned_abs);
    let set = find(ops, &args[1])?;
    let popped = match &set {
        Some(set) => set.choose(ops, wanted.unwrap_or(1))?,
        None => Vec::new(),
    };
    if let Some(set) = set {
        remove(ops, set, &popped)?;
    }
    match wanted {
        None => out.bulk_or_null(popped.first().map(Vec::as_slice)),
        Some(_) => show(out, &popped),
    }
    Ok(())
}

/// How several sets become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combine {
    Intersection,
    Union,
    Difference,
}

/// The members that these sets have together; of an intersection or a difference, `limit` at most.
fn combined<'k>(
    ops: &mut Ops<'_, '_>,
    keys: impl Iterator<Item = &'k [u8]>,
    how: Combine,
    limit: usize,
) -> Result<BTreeSet<Vec<u8>>, Fault> {
    // All of them are sets, or nothing is done.
    let sets = keys.map(|key| find(ops, key)).collect::<Result<Vec<_>, _>>()?;
    match how {
        Combine::Union => {
            let mut all = BTreeSet::new();
            for set in sets.iter().flatten() {
                all.append(&mut members(ops, set)?);
            }
            Ok(all)
        }
        Combine::Intersection => {
            let Some(sets) = sets.into_iter().collect::<Option<Vec<_>>>() else { return Ok(BTreeSet::new()) };
            let mut sized = Vec::new();
            for set in sets {
                sized.push((set.len(ops)?, set));
            }
            sized.sort_by_key(|(len, _)| *len);
            let sets: Vec<_> = sized.into_iter().map(|(_, set)| set).collect();
            let Some((smallest, others)) = sets.split_first() else { return Ok(BTreeSet::new()) };
            kept(ops, smallest, others, true, limit)
        }
        Combine::Difference => {
            let mut sets = sets.into_iter();
            let Some(Some(first)) = sets.next() else { return Ok(BTreeSet::new()) };
            let others: Vec<_> = sets.flatten().collect();
            kept(ops, &first, &others, false, limit)
        }
    }
}

/// The members of the first set that all others have, or that none of them has: this many at most.
fn kept(
    ops: &mut Ops<'_, '_>,
    first: &Collection<'_>,
    others: &[Collection<'_>],
    if_there: bool,
    limit: usize,
) -> Result<BTreeSet<Vec<u8>>, Fault> {
    let mut kept = BTreeSet::new();
    'members: for member in members(ops, first)? {
        for set in others {
            if set.get(ops, &member)?.is_some() != if_there {
                continue 'members;
            }
        }
        kept.insert(member);
        if kept.len() == limit {
            break;
        }
    }
    Ok(kept)
}

pub(super) fn combine(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    how: Combine,
    out: &mut Replies,
) -> Result<(), Fault> {
    let members: Vec<_> = combined(ops, args.from(1), how, usize::MAX)?.into_iter().collect();
    show(out, &members);
    Ok(())
}

/// SINTERCARD: how many members an intersection has.
pub(super) fn count_common(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let keys = number_of_keys(&args[1])?;
    if keys > args.len() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (mut words, mut most) = (args.from(2 + keys), usize::MAX);
    while let Some(word) = words.next() {
        match words.next() {
            Some(number) if is(word, "limit") => most = limit(number)?,
            _ => return Err(SYNTAX.into()),
        }
    }
    out.count(combined(ops, args.from(2).take(keys), Combine::Intersection, most)?.len());
    Ok(())
}

/// What sets have together, put into a key, whatever that has.
pub(super) fn combine_into(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    how: Combine,
    out: &mut Replies,
) -> Result<(), Fault> {
    let members = combined(ops, args.from(2), how, usize::MAX)?;
    ops.delete(&args[1])?;
    out.integer(add(ops, &args[1], members.iter().map(Vec::as_slice))?);
    Ok(())
}
