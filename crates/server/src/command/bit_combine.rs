//! BITOP: the bits of several strings as those of one, which a key gets. A string that is shorter
//! than others goes on with zeros.

use super::syntax::{SYNTAX, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::value::Found;

/// Puts the bits of some bytes together with those of others.
type Combine = fn(&mut [u8], &[u8]);

/// Puts together the bits of these bytes and others, behind which there are zeros.
fn fold(bytes: &mut [u8], others: &[u8], combine: impl Fn(u8, u8) -> u8) {
    let (common, rest) = bytes.split_at_mut(others.len());
    common.iter_mut().zip(others).for_each(|(byte, other)| *byte = combine(*byte, *other));
    rest.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
}

pub(super) fn bit_op(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    // NOT is the first string, and then each bit is turned around.
    let (combine, negates): (Combine, bool) = match &args[1] {
        word if is(word, "and") => (|bytes, others| fold(bytes, others, |one, other| one & other), false),
        word if is(word, "or") => (|bytes, others| fold(bytes, others, |one, other| one | other), false),
        word if is(word, "xor") => (|bytes, others| fold(bytes, others, |one, other| one ^ other), false),
        word if is(word, "not") => (|_, _| {}, true),
        _ => return Err(SYNTAX.into()),
    };
    if negates && args.len() != 4 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let found = args.from(3).map(|key| ops.string(key)).collect::<Result<Vec<_>, _>>()?;
    let bytes = |found: &Option<Found>| found.as_ref().map_or(0, |found| found.bytes().len());
    let length = found.iter().map(bytes).max().unwrap_or(0);
    if length == 0 {
        ops.delete(&args[2])?;
    } else {
        ops.put_with(&args[2], None, |value| {
            let start = value.len();
            let mut all = found.iter().map(|found| found.as_ref().map_or(&b""[..], Found::bytes));
            value.extend_from_slice(all.next().unwrap_or_default());
            value.resize(start + length, 0);
            all.for_each(|others| combine(&mut value[start..], others));
            if negates {
                value[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        })?;
    }
    out.count(length);
    Ok(())
}
