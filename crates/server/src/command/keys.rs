//! Keys: whether they are there, and that they are not any more.

use super::syntax::{SYNTAX, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

pub(super) fn del(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut deleted = 0;
    for key in args.from(1) {
        deleted += i64::from(ops.delete(key)?);
    }
    out.integer(deleted);
    Ok(())
}

pub(super) fn exists(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut there = 0;
    for key in args.from(1) {
        there += i64::from(ops.get(key)?.is_some());
    }
    out.integer(there);
    Ok(())
}

pub(super) fn kind(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.simple(ops.get(&args[1])?.map_or("none", |found| found.kind().name()));
    Ok(())
}

pub(super) fn random(ops: &mut Ops<'_, '_>, _: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    out.bulk_or_null(ops.random_key()?.as_deref());
    Ok(())
}

pub(super) fn flush(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let is_mode = |arg| is(arg, "sync") || is(arg, "async");
    if args.len() > 2 || args.get(1).is_some_and(|arg| !is_mode(arg)) {
        return Err(SYNTAX.into());
    }
    ops.clear()?;
    out.ok();
    Ok(())
}
