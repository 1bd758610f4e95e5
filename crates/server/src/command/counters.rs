//! Numbers that are counted up and down.

use super::syntax::{NOT_FLOAT, integer};
use crate::extended::Extended;
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

pub(super) const OVERFLOW: &str = "ERR increment or decrement would overflow";
pub(super) const INFINITE: &str = "ERR increment would produce NaN or Infinity";

pub(super) fn incr_by(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    add(ops, args, integer(&args[2])?, out)
}

pub(super) fn decr_by(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let by = integer(&args[2])?.checked_neg().ok_or("ERR decrement would overflow")?;
    add(ops, args, by, out)
}

pub(super) fn add(ops: &mut Ops<'_, '_>, args: Args<'_>, by: i64, out: &mut Replies) -> Result<(), Fault> {
    let key = &args[1];
    let found = ops.string(key)?;
    let old = found.as_ref().map_or(Ok(0), |found| integer(found.bytes()))?;
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    let expires_ms = found.and_then(|found| found.expires_ms());
    ops.put(key, itoa::Buffer::new().format(new).as_bytes(), expires_ms)?;
    out.integer(new);
    Ok(())
}

pub(super) fn incr_by_float(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let key = &args[1];
    let found = ops.string(key)?;
    let old = found.as_ref().map_or(Some(Extended::ZERO), |found| Extended::read(found.bytes()));
    let sum = old.ok_or(NOT_FLOAT)?.plus(Extended::read(&args[2]).ok_or(NOT_FLOAT)?);
    let text = sum.text().ok_or(INFINITE)?;
    let expires_ms = found.and_then(|found| found.expires_ms());
    ops.put(key, text.as_bytes(), expires_ms)?;
    out.bulk(text.as_bytes());
    Ok(())
}
