//! LCS: the longest text that two strings have in common, if bytes may be left out of either.
//!
//! A table has, for each two beginnings of the strings, how long that text is. A way back through
//! it finds the text, from its end on.

use super::syntax::{SYNTAX, integer, is};
use crate::fault::Fault;
use crate::ops::Ops;
use crate::resp::{Args, Replies};
use crate::value::{Found, Kind};

/// Bytes that stand in both strings without a gap: where, and how many.
struct Match {
    first: [usize; 2],
    length: usize,
}

pub(super) fn lcs(ops: &mut Ops<'_, '_>, args: Args<'_>, out: &mut Replies) -> Result<(), Fault> {
    let found = [ops.get(&args[1])?, ops.get(&args[2])?];
    if found.iter().flatten().any(|found| found.kind() != Kind::String) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let (mut wants_length, mut wants_matches, mut with_lengths, mut least) = (false, false, false, 0);
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        match () {
            () if is(word, "len") => wants_length = true,
            () if is(word, "idx") => wants_matches = true,
            () if is(word, "withmatchlen") => with_lengths = true,
            () if is(word, "minmatchlen") => {
                least = usize::try_from(integer(words.next().ok_or(SYNTAX)?)?).unwrap_or(0);
            }
            () => return Err(SYNTAX.into()),
        }
    }
    if wants_length && wants_matches {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let [one, two] = found.each_ref().map(|found| found.as_ref().map_or(&b""[..], Found::bytes));
    let bytes = (one.len() + 1).saturating_mul(two.len() + 1).saturating_mul(size_of::<u32>());
    if bytes > ops.value_bytes_max {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into());
    }
    let table = lengths(one, two);
    let length = table.last().copied().unwrap_or(0) as usize;
    if wants_length {
        out.count(length);
        return Ok(());
    }
    let mut matches = matches(one, two, &table);
    if !wants_matches {
        let parts = matches.iter().rev().map(|part| &one[part.first[0]..part.first[0] + part.length]);
        out.bulk(&parts.collect::<Vec<_>>().concat());
        return Ok(());
    }
    matches.retain(|part| part.length >= least);
    out.map(2);
    out.bulk(b"matches");
    out.array(matches.len());
    for Match { first, length } in matches {
        out.array(2 + usize::from(with_lengths));
        for first in first {
            out.array(2);
            out.count(first);
            out.count(first + length - 1);
        }
        if with_lengths {
            out.count(length);
        }
    }
    out.bulk(b"len");
    out.count(length);
    Ok(())
}

/// The table: a row for each beginning of the first string.
fn lengths(one: &[u8], two: &[u8]) -> Vec<u32> {
    let width = two.len() + 1;
    let mut table = vec![0; (one.len() + 1) * width];
    for (row, byte) in one.iter().enumerate() {
        let (above, below) = table[row * width..].split_at_mut(width);
        for (column, other) in two.iter().enumerate() {
            below[column + 1] = match byte == other {
                true => above[column] + 1,
                false => above[column + 1].max(below[column]),
            };
        }
    }
    table
}

/// What the two have in common, the last match first.
fn matches(one: &[u8], two: &[u8], table: &[u32]) -> Vec<Match> {
    let width = two.len() + 1;
    let (mut matches, mut goes_on) = (Vec::<Match>::new(), false);
    let (mut row, mut column) = (one.len(), two.len());
    while row > 0 && column > 0 {
        if one[row - 1] != two[column - 1] {
            goes_on = false;
            let leaves_first = table[(row - 1) * width + column] > table[row * width + column - 1];
            if leaves_first {
                row -= 1
            } else {
                column -= 1
            }
            continue;
        }
        (row, column) = (row - 1, column - 1);
        match matches.last_mut() {
            Some(last) if goes_on => *last = Match { first: [row, column], length: last.length + 1 },
            _ => matches.push(Match { first: [row, column], length: 1 }),
        }
        goes_on = true;
    }
    matches
}
