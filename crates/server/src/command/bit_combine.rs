//! BITOP: the bits of several strings as those of one, which a key gets. A string that is shorter
//! than others goes on with zeros.

use super::syntax::{SYNTAX, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::value::Found;

pub(super) fn bit_op(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    // NOT is the first string, and then each bit is turned around.
    let (combine, negates): (fn(u8, u8) -> u8, bool) = match &args[1] {
        word if is(word, "and") => (|one, other| one & other, false),
        word if is(word, "or") => (|one, other| one | other, false),
        word if is(word, "xor") => (|one, other| one ^ other, false),
        word if is(word, "not") => (|one, _| one, true),
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
            for (index, found) in found.iter().enumerate() {
                let bytes = found.as_ref().map_or(&b""[..], Found::bytes);
                if index == 0 {
                    value.extend_from_slice(bytes);
                    value.resize(start + length, 0);
                    continue;
                }
                let others = bytes.iter().copied().chain(std::iter::repeat(0));
                value[start..].iter_mut().zip(others).for_each(|(byte, other)| *byte = combine(*byte, other));
            }
            if negates {
                value[start..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        })?;
    }
    out.count(length);
    Ok(())
}
