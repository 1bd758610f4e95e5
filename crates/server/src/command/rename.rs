//! RENAME, RENAMENX and COPY: what a key has, under another key.

use super::connection::database;
use super::syntax::{SYNTAX, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

/// RENAME; `only_new`: RENAMENX.
pub(super) fn rename(
    ops: &mut Ops<'_, '_>,
    args: Args<'_>,
    only_new: bool,
    out: &mut Replies,
) -> Result<(), Fault> {
    let (from, to) = (&args[1], &args[2]);
    let found = ops.get(from)?.ok_or("ERR no such key")?;
    let is_refused = only_new && (from == to || ops.get(to)?.is_some());
    if !is_refused && from != to {
        ops.rename(from, &found, to)?;
    }
    if only_new {
        out.integer(i64::from(!is_refused))
    } else {
        out.ok()
    }
    Ok(())
}

pub(super) fn copy(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let mut replaces = false;
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        if is(word, "replace") {
            replaces = true;
        } else if is(word, "db")
            && let Some(number) = words.next()
        {
            database(number)?;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let (from, to) = (&args[1], &args[2]);
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let found = ops.get(from)?;
    let found = if replaces || ops.get(to)?.is_none() { found } else { None };
    if let Some(found) = &found {
        ops.copy(found, to)?;
    }
    out.integer(i64::from(found.is_some()));
    Ok(())
}
