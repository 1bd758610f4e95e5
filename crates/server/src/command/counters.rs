//! Numbers that are counted up and down.

use super::NOT_INTEGER;
use crate::fault::Fault;
use crate::numbers::integer;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

pub(super) fn incr(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    add(ops, &args[1], 1, out)
}

pub(super) fn decr(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    add(ops, &args[1], -1, out)
}

pub(super) fn incr_by(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    match integer(&args[2]) {
        Some(by) => add(ops, &args[1], by, out),
        None => {
            out.error(NOT_INTEGER);
            Ok(())
        }
    }
}

pub(super) fn decr_by(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    match integer(&args[2]) {
        Some(i64::MIN) => out.error("ERR decrement would overflow"),
        Some(by) => return add(ops, &args[1], -by, out),
        None => out.error(NOT_INTEGER),
    }
    Ok(())
}

fn add(ops: &mut Ops<'_, '_>, key: &[u8], by: i64, out: &mut Replies) -> Result<(), Fault> {
    let found = ops.string(key)?;
    let Some(old) = found.as_ref().map_or(Some(0), |found| integer(found.bytes())) else {
        out.error(NOT_INTEGER);
        return Ok(());
    };
    let Some(new) = old.checked_add(by) else {
        out.error("ERR increment or decrement would overflow");
        return Ok(());
    };
    let expires_ms = found.and_then(|found| found.expires_ms());
    ops.put(key, itoa::Buffer::new().format(new).as_bytes(), expires_ms)?;
    out.integer(new);
    Ok(())
}
