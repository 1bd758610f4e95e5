//! Hashes: fields, each with a value.

use super::counters::{INFINITE, OVERFLOW};
use super::syntax::{NOT_FLOAT, integer, wrong_number};
use crate::collection::Collection;
use crate::extended::Extended;
use crate::fault::Fault;
use crate::numbers;
use crate::ops::{Enough, Ops};
use crate::resp::{Args, Replies};
use crate::value::Kind;
use manx::txn::{Error, Value};

fn find<'k>(ops: &mut Ops<'_, '_>, args: Args<'k>) -> Result<Option<Collection<'k>>, Fault> {
    Collection::find(ops, args.get(1).unwrap_or_default(), Kind::Hash)
}

fn find_or_make<'k>(ops: &mut Ops<'_, '_>, args: Args<'k>) -> Result<Collection<'k>, Fault> {
    Collection::find_or_make(ops, args.get(1).unwrap_or_default(), Kind::Hash)
}

/// Sets all fields. Returns how many are new.
fn set_all(ops: &mut Ops<'_, '_>, name: &str, args: Args<'_>) -> Result<i64, Fault> {
    if !args.len().is_multiple_of(2) {
        return Err(wrong_number(name).into());
    }
    let mut hash = find_or_make(ops, args)?;
    let mut added = 0;
    for (field, value) in args.from(2).step_by(2).zip(args.from(3).step_by(2)) {
        let is_new = hash.get(ops, field)?.is_none();
        hash.put(ops, field, value, is_new)?;
        added += i64::from(is_new);
    }
    hash.finish(ops)?;
    Ok(added)
}

pub(super) fn hset(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.integer(set_all(ops, "hset", args)?);
    Ok(())
}

pub(super) fn hmset(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    set_all(ops, "hmset", args)?;
    out.ok();
    Ok(())
}

pub(super) fn hsetnx(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut hash = find_or_make(ops, args)?;
    let is_new = hash.get(ops, &args[2])?.is_none();
    if is_new {
        hash.put(ops, &args[2], &args[3], true)?;
        hash.finish(ops)?;
    }
    out.integer(i64::from(is_new));
    Ok(())
}

/// What a field of a hash that may not be there has.
fn field(ops: &mut Ops<'_, '_>, hash: Option<&Collection<'_>>, field: &[u8]) -> Result<Option<Value>, Error> {
    match hash {
        Some(hash) => hash.get(ops, field),
        None => Ok(None),
    }
}

pub(super) fn hget(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let hash = find(ops, args)?;
    out.bulk_or_null(field(ops, hash.as_ref(), &args[2])?.as_deref());
    Ok(())
}

pub(super) fn hmget(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let hash = find(ops, args)?;
    out.array(args.len() - 2);
    for name in args.from(2) {
        out.bulk_or_null(field(ops, hash.as_ref(), name)?.as_deref());
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

pub(super) fn hexists(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let hash = find(ops, args)?;
    out.integer(i64::from(field(ops, hash.as_ref(), &args[2])?.is_some()));
    Ok(())
}

pub(super) fn hstrlen(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let hash = find(ops, args)?;
    out.count(field(ops, hash.as_ref(), &args[2])?.map_or(0, |value| value.len()));
    Ok(())
}

pub(super) fn hlen(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let length = match find(ops, args)? {
        Some(hash) => hash.len(ops)?,
        None => 0,
    };
    out.integer(length as i64);
    Ok(())
}

pub(super) fn hdel(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut deleted = 0;
    if let Some(mut hash) = find(ops, args)? {
        for name in args.from(2) {
            if hash.get(ops, name)?.is_some() {
                hash.delete(ops, name)?;
                deleted += 1;
            }
        }
        hash.finish(ops)?;
    }
    out.integer(deleted);
    Ok(())
}

/// Answers with all fields: `begin` says how many there are, and `show` answers with each.
fn all(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    out: &mut Replies,
    begin: fn(&mut Replies, usize),
    show: fn(&mut Replies, &[u8], &[u8]),
) -> Result<(), Fault> {
    let Some(hash) = find(ops, args)? else {
        begin(out, 0);
        return Ok(());
    };
    begin(out, hash.len(ops)? as usize);
    hash.members(ops, &hash.all(), false, |field, value| {
        show(out, field, value);
        if out.is_over() { Enough::Yes } else { Enough::No }
    })?;
    Ok(())
}

pub(super) fn hgetall(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    all(ops, args, out, Replies::map, |out, field, value| {
        out.bulk(field);
        out.bulk(value);
    })
}

pub(super) fn hkeys(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    all(ops, args, out, Replies::array, |out, field, _| out.bulk(field))
}

pub(super) fn hvals(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    all(ops, args, out, Replies::array, |out, _, value| out.bulk(value))
}

pub(super) fn hincrby(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let by = integer(&args[3])?;
    let mut hash = find_or_make(ops, args)?;
    let found = hash.get(ops, &args[2])?;
    let old = found.as_ref().map_or(Some(0), |value| numbers::integer(value));
    let new = old.ok_or("ERR hash value is not an integer")?.checked_add(by).ok_or(OVERFLOW)?;
    hash.put(ops, &args[2], itoa::Buffer::new().format(new).as_bytes(), found.is_none())?;
    hash.finish(ops)?;
    out.integer(new);
    Ok(())
}

pub(super) fn hincrbyfloat(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let by = Extended::read(&args[3]).ok_or(NOT_FLOAT)?;
    if by == Extended::Infinite {
        return Err("ERR value is NaN or Infinity".into());
    }
    let mut hash = find_or_make(ops, args)?;
    let found = hash.get(ops, &args[2])?;
    let old = found.as_ref().map_or(Some(Extended::ZERO), |value| Extended::read(value));
    let sum = old.ok_or("ERR hash value is not a float")?.plus(by);
    let text = sum.text().ok_or(INFINITE)?;
    hash.put(ops, &args[2], text.as_bytes(), found.is_none())?;
    hash.finish(ops)?;
    out.bulk(text.as_bytes());
    Ok(())
}
