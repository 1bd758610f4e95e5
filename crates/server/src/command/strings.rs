//! Values: GET and what is like it, MGET and MSET, APPEND and parts of strings.

use super::syntax::{integer, wrong_number};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies, Source};
use crate::value::{Found, Kind};

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

pub(super) fn get(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.bulk_or_null(ops.string(&args[1])?.as_ref().map(Found::bytes));
    Ok(())
}

pub(super) fn strlen(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.string(&args[1])?;
    out.count(found.map_or(0, |found| found.bytes().len()));
    Ok(())
}

pub(super) fn get_del(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.string(&args[1])?;
    if found.is_some() {
        ops.delete(&args[1])?;
    }
    out.bulk_or_null(found.as_ref().map(Found::bytes));
    Ok(())
}

pub(super) fn get_set(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.string(&args[1])?;
    ops.put(&args[1], args.source(2), None)?;
    out.bulk_or_null(found.as_ref().map(Found::bytes));
    Ok(())
}

pub(super) fn mget(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.array(args.len() - 1);
    for key in args.from(1) {
        let found = ops.get(key)?.filter(|found| found.kind() == Kind::String);
        out.bulk_or_null(found.as_ref().map(Found::bytes));
        // The connection will be closed for that, so no client misses the rest.
        if out.is_over() {
            break;
        }
    }
    Ok(())
}

fn pairs(args: Args<'_>) -> impl Iterator<Item = (&[u8], Source<'_>)> {
    args.from(1).step_by(2).zip((2..args.len()).step_by(2).map(move |at| args.source(at)))
}

pub(super) fn mset(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    if args.len().is_multiple_of(2) {
        return Err(wrong_number("mset").into());
    }
    for (key, value) in pairs(args) {
        ops.put(key, value, None)?;
    }
    out.ok();
    Ok(())
}

pub(super) fn mset_nx(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    if args.len().is_multiple_of(2) {
        return Err(wrong_number("msetnx").into());
    }
    for (key, _) in pairs(args) {
        if ops.get(key)?.is_some() {
            out.integer(0);
            return Ok(());
        }
    }
    for (key, value) in pairs(args) {
        ops.put(key, value, None)?;
    }
    out.integer(1);
    Ok(())
}

pub(super) fn append(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (found, more) = (ops.string(&args[1])?, &args[2]);
    let old = found.as_ref().map_or(&b""[..], |found| found.bytes());
    let length = old.len() + more.len();
    if length > ops.value_bytes_max {
        return Err(TOO_LONG.into());
    }
    let expires_ms = found.as_ref().and_then(|found| found.expires_ms());
    ops.put_with(&args[1], expires_ms, |value| {
        value.extend_from_slice(old);
        value.extend_from_slice(more);
    })?;
    out.count(length);
    Ok(())
}

pub(super) fn get_range(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let found = ops.string(&args[1])?;
    out.bulk(part(found.as_ref().map_or(&b""[..], |found| found.bytes()), start, end));
    Ok(())
}

/// The part from `start` to `end`, which is included; negative ones count from the end.
fn part(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let length = bytes.len() as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(length - 1));
    if start > end { b"" } else { &bytes[start as usize..=end as usize] }
}

pub(super) fn set_range(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let offset = usize::try_from(integer(&args[2])?).map_err(|_| "ERR offset is out of range")?;
    let (found, new) = (ops.string(&args[1])?, &args[3]);
    let old = found.as_ref().map_or(&b""[..], |found| found.bytes());
    if new.is_empty() {
        out.count(old.len());
        return Ok(());
    }
    let end = offset.saturating_add(new.len());
    if end > ops.value_bytes_max {
        return Err(TOO_LONG.into());
    }
    let expires_ms = found.as_ref().and_then(|found| found.expires_ms());
    ops.put_with(&args[1], expires_ms, |value| {
        let start = value.len();
        value.extend_from_slice(old);
        value.resize(start + old.len().max(end), 0);
        value[start + offset..start + end].copy_from_slice(new);
    })?;
    out.count(old.len().max(end));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn parts_of_a_string() {
        for (start, end, expected) in [
            (0, -1, "hello"),
            (0, 0, "h"),
            (1, 3, "ell"),
            (-3, -1, "llo"),
            (-1, -3, ""),
            (3, 1, ""),
            (0, 100, "hello"),
            (-100, 100, "hello"),
            (-100, -6, "h"),
            (5, 10, ""),
            (i64::MIN, i64::MAX, "hello"),
        ] {
            assert_eq!(part(b"hello", start, end), expected.as_bytes(), "{start} {end}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
