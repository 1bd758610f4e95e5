//! Bits of strings: GETBIT, SETBIT, BITCOUNT and BITPOS. The first bit is the highest one of the
//! first byte.

use super::syntax::{SYNTAX, integer, is};
use crate::fault::Fault;
use crate::numbers;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::value::Found;
use std::ops::Range;

/// The longest string of Redis: beyond it there is no bit to read.
pub(super) const BYTES_MAX: usize = 512 << 20;
pub(super) const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// Reads the number of a bit in a string of this length at most.
fn offset(arg: &[u8], bytes_max: usize) -> Result<usize, Fault> {
    let offset = numbers::integer(arg).and_then(|offset| usize::try_from(offset).ok());
    let offset = offset.filter(|offset| offset / 8 < bytes_max);
    offset.ok_or(BAD_OFFSET.into())
}

/// The bit of this number in its byte.
fn mask(offset: usize) -> u8 {
    0x80 >> (offset % 8)
}

fn is_set(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte & mask(offset) != 0)
}

pub(super) fn get_bit(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let offset = offset(&args[2], BYTES_MAX)?;
    let found = ops.string(&args[1])?;
    out.integer(found.is_some_and(|found| is_set(found.bytes(), offset)).into());
    Ok(())
}

pub(super) fn set_bit(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let offset = offset(&args[2], ops.value_bytes_max)?;
    let bit = match &args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let found = ops.string(&args[1])?;
    let old = found.as_ref().map_or(&b""[..], |found| found.bytes());
    let was = is_set(old, offset);
    // As in Redis, a bit that has this value already is no write.
    if was != bit || old.len() <= offset / 8 {
        let expires_ms = found.as_ref().and_then(Found::expires_ms);
        ops.put_with(&args[1], expires_ms, |value| {
            let start = value.len();
            value.extend_from_slice(old);
            value.resize(start + old.len().max(offset / 8 + 1), 0);
            let byte = &mut value[start + offset / 8];
            *byte = if bit { *byte | mask(offset) } else { *byte & !mask(offset) };
        })?;
    }
    out.integer(was.into());
    Ok(())
}

/// The bits from `start` to `end`, which is included, of a string of this length. Both count bytes
/// or bits, and from the end if they are negative.
fn range(length: usize, start: i64, end: i64, in_bits: bool) -> Range<usize> {
    let unit = if in_bits { 1 } else { 8 };
    let total = (length * 8 / unit) as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(total - 1));
    if start > end { 0..0 } else { start as usize * unit..(end as usize + 1) * unit }
}

/// Whether a word says that a range counts bits, and not bytes.
fn counts_bits(word: &[u8]) -> Result<bool, Fault> {
    match word {
        word if is(word, "bit") => Ok(true),
        word if is(word, "byte") => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

/// How many bits of a range are set.
fn count(bytes: &[u8], bits: Range<usize>) -> usize {
    let bytes = &bytes[bits.start / 8..bits.end.div_ceil(8)];
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return 0 };
    let all: usize = bytes.iter().map(|byte| byte.count_ones() as usize).sum();
    let before = u16::from(*first) >> (8 - bits.start % 8);
    let behind = if bits.end.is_multiple_of(8) { 0 } else { last << (bits.end % 8) };
    all - (before.count_ones() + behind.count_ones()) as usize
}

pub(super) fn bit_count(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    // As in Redis, only a string that is there makes the other arguments count.
    let Some(found) = ops.string(&args[1])? else {
        out.integer(0);
        return Ok(());
    };
    let bytes = found.bytes();
    let bits = match args.len() {
        2 => 0..bytes.len() * 8,
        4 | 5 => {
            let (start, end) = (integer(&args[2])?, integer(&args[3])?);
            if start < 0 && end < 0 && start > end {
                out.integer(0);
                return Ok(());
            }
            let in_bits = args.get(4).map_or(Ok(false), counts_bits)?;
            range(bytes.len(), start, end, in_bits)
        }
        _ => return Err(SYNTAX.into()),
    };
    out.count(count(bytes, bits));
    Ok(())
}

/// The first bit of a range that has this value.
fn position(bytes: &[u8], bits: Range<usize>, bit: bool) -> Option<usize> {
    let first = bits.start / 8;
    for (index, byte) in bytes.iter().enumerate().take(bits.end.div_ceil(8)).skip(first) {
        let mut wanted = if bit { *byte } else { !byte };
        if index == first {
            wanted &= 0xFF >> (bits.start % 8);
        }
        if wanted != 0 {
            let position = index * 8 + wanted.leading_zeros() as usize;
            return (position < bits.end).then_some(position);
        }
    }
    None
}

pub(super) fn bit_position(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let bit = match integer(&args[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    // As in Redis, only a string that is there makes the other arguments count.
    let Some(found) = ops.string(&args[1])? else {
        out.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    if args.len() > 6 {
        return Err(SYNTAX.into());
    }
    let bytes = found.bytes();
    let start = args.get(3).map_or(Ok(0), integer)?;
    let in_bits = args.get(5).map_or(Ok(false), counts_bits)?;
    let end = args.get(4).map(integer).transpose()?;
    let bits = range(bytes.len(), start, end.unwrap_or(-1), in_bits);
    let found = match position(bytes, bits.clone(), bit) {
        // Behind a string without an end of the range there are zeros.
        None if !bit && end.is_none() && !bits.is_empty() => Some(bits.end),
        found => found,
    };
    out.integer(found.map_or(-1, |position| position as i64));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_and_found_as_if_one_by_one() {
        let bytes = [0b0110_1000, 0xFF, 0, 0b0000_0001, 0xFF];
        for start in 0..40 {
            for end in start..=40 {
                let ones = (start..end).filter(|at| is_set(&bytes, *at)).count();
                assert_eq!(count(&bytes, start..end), ones, "{start} {end}");
                for bit in [false, true] {
                    let first = (start..end).find(|at| is_set(&bytes, *at) == bit);
                    assert_eq!(position(&bytes, start..end, bit), first, "{start} {end} {bit}");
                }
            }
        }
    }

    #[test]
    fn ranges_count_bytes_or_bits() {
        assert_eq!(range(3, 0, -1, false), 0..24);
        assert_eq!(range(3, 0, -1, true), 0..24);
        assert_eq!(range(3, 1, 1, false), 8..16);
        assert_eq!(range(3, -2, -2, true), 22..23);
        assert_eq!(range(3, -100, -50, false), 0..8);
        assert_eq!(range(3, 2, 1, false), 0..0);
        assert_eq!(range(0, 0, -1, false), 0..0);
        assert_eq!(range(3, i64::MIN, i64::MAX, true), 0..24);
    }
}
