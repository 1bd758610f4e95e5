//! MEMORY USAGE: how much memory a key takes here, with its value or its members.
//!
//! Each entry of the store takes the bytes of its name and value, and a fixed number beside them
//! (`memory.rs`). The members of a collection are not all looked at: some, the first ones, stand
//! for the others.

use super::syntax::{SYNTAX, help, integer, is};
use crate::collection::Collection;
use crate::fault::Fault;
use crate::memory;
use crate::ops::Ops;
use crate::resp::{Args, Replies};

/// How many members are looked at by default.
const SAMPLES: u64 = 5;

pub(super) fn memory(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let Some(key) = args.get(2) else {
        help("MEMORY", &HELP, out);
        return Ok(());
    };
    let (mut samples, mut words) = (SAMPLES, args.from(3));
    while let Some(word) = words.next() {
        match words.next() {
            Some(count) if is(word, "samples") => {
                samples = u64::try_from(integer(count)?).map_err(|_| SYNTAX)?;
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let samples = if samples == 0 { u64::MAX } else { samples };
    let Some(found) = ops.look_at(key)? else {
        out.null();
        return Ok(());
    };
    let own = memory::growth(&ops.name(key), None, Some(found.stored_bytes()));
    let members = match Collection::of(key, &found) {
        Some(collection) => collection.memory_bytes(ops, samples)?,
        None => 0,
    };
    out.integer(own.saturating_add_unsigned(members));
    Ok(())
}

const HELP: [&str; 3] = [
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
];
