//! Learning a scale from ranges that were locked.
//!
//! The lock copies the beginnings of some ranges' keys. These copies are its samples. When there
//! are [`SAMPLES`] of them, the lock judges the scale in use by them. A scale is *bad* for a range
//! that is not within one block. If more than a quarter of the ranges begin in the same block, the
//! scale is also bad for those above the quarter. If the scale in use is bad for a quarter of the
//! samples, the lock makes the best scale for these samples. If the new scale is bad for at most
//! half as many of them, it is proposed. So a lock whose ranges overlap anyway, or are wide for any
//! scale, keeps its scale.
//!
//! The usual bytes of a column are learnt from start keys alone. The start keys are sorted, and a
//! few at each end are left out, so that stray ranges of another table do not matter. If a column
//! has seen only decimal digits, all ten are expected; likewise `a-z` and `A-Z`. A column of
//! decimal digits that never varied still counts if it follows one that did, because numbers grow.
//! Such a column before one that varied counts as long as the window has room for it.
//!
//! A block has room for 2^16 ranges of the usual size ([`ROOM_LOG2`]), so that threads that work in
//! different parts of the key space use different shards. A block is smaller if it would otherwise
//! have more than one sample in [`BLOCKS`]. A block is no larger, because a lock that is used row
//! by row gets its next samples close to each other: a larger block would have all of them.
//!
//! Nothing here can make a lock wrong: each proposal is a scale, and any scale keeps the order of
//! keys (`scale.rs`).

use super::key::Key;
use super::scale::{COLUMNS, Digits, Scale, UsualBytes, WINDOW};
use super::span::Span;

/// Ranges that a scale is learnt from. Few in a model, so that scales change there.
pub(super) const SAMPLES: usize = if platform::spin_bound(2) < 2 { 2 } else { 64 };
/// One sample in this number is left out at the low end, and one at the high end.
const OUTLIER: usize = 16;
/// The binary logarithm of the number of usual ranges that a block has room for, in positions, …
const ROOM_LOG2: u32 = 16;
/// … but no block has more than one sample in this number, if that is possible.
const BLOCKS: usize = 8;

/// The beginnings of a range's two keys; `None` for an end that is open.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl Sample {
    pub(super) fn new<K: Key>(span: &Span<K>) -> Sample {
        let copy = |key: &K| key.bytes()[..key.bytes().len().min(COLUMNS + 1)].to_vec();
        Sample { start: span.start().map(copy), end: span.end().map(copy) }
    }

    fn ends(&self, scale: &Scale) -> (u64, u64) {
        let first = self.start.as_ref().map_or(0, |start| scale.position(start));
        (first, self.end.as_ref().map_or(u64::MAX, |end| scale.last_before(end).max(first)))
    }
}

/// A scale that is much better for these samples than the one in use.
pub(super) fn better(samples: &[Sample], than: &Scale) -> Option<Scale> {
    let bad = cost(samples, than);
    if bad < samples.len() / 4 {
        return None;
    }
    best(samples).filter(|scale| cost(samples, scale) <= bad / 2)
}

/// The number of samples for which a scale is bad.
fn cost(samples: &[Sample], scale: &Scale) -> usize {
    let ends: Vec<_> = samples.iter().map(|sample| sample.ends(scale)).collect();
    let across = ends.iter().filter(|(first, last)| first >> scale.block_log2 != last >> scale.block_log2);
    let max_ranges_in_a_block = max_ranges_in_a_block(&ends, scale.block_log2);
    across.count() + max_ranges_in_a_block.saturating_sub((samples.len() / 4).max(1))
}

/// The largest number of ranges that begin in the same block.
fn max_ranges_in_a_block(ends: &[(u64, u64)], block_log2: u32) -> usize {
    let mut blocks: Vec<_> = ends.iter().map(|(first, _)| first >> block_log2).collect();
    blocks.sort_unstable();
    blocks.chunk_by(u64::eq).map(<[u64]>::len).max().unwrap_or(0)
}

/// The best scale for these samples; none if their keys are all the same, or differ where no scale
/// looks.
pub(super) fn best(samples: &[Sample]) -> Option<Scale> {
    let mut starts: Vec<&[u8]> = samples.iter().filter_map(|sample| sample.start.as_deref()).collect();
    starts.sort_unstable();
    let outliers = starts.len() / OUTLIER;
    let mut usual = seen_bytes(&starts[outliers..starts.len() - outliers]);
    let varies = |column: &usize| usual.lows[*column] < usual.highs[*column];
    let last = whole_number(&usual, (0..COLUMNS).rev().find(varies)?);
    let first = (0..COLUMNS).find(varies)?;
    // Where a table's name ends, if there is one, and the next column that varies.
    let end = (first..=last).find(|column| !varies(column)).unwrap_or(last + 1);
    let next = (end..=last).find(varies);
    let (first, second) = match next {
        Some(next) if last - first >= WINDOW && (end - first) + (last + 1 - next) <= WINDOW => {
            let room = WINDOW - (end - first);
            (Digits { first, end }, Some(windowed(&usual, next, end, last, room)))
        }
        _ => {
            let first = windowed(&usual, first, 0, last, WINDOW);
            let next = (first.end..=last).find(varies);
            (first, next.map(|next| windowed(&usual, next, first.end, last, WINDOW)))
        }
    };
    for digits in [Some(first), second].into_iter().flatten() {
        for column in digits.first..digits.end {
            (usual.lows[column], usual.highs[column]) = whole_kind(usual.lows[column], usual.highs[column]);
        }
    }
    let mut scale = Scale::new(usual, first, second, 0);
    let ends: Vec<_> = samples
        .iter()
        .filter(|sample| sample.start.is_some() && sample.end.is_some())
        .map(|sample| sample.ends(&scale))
        .collect();
    scale.set_block(block_log2(&ends));
    Some(scale)
}

/// The bytes that these keys have in each column. Column `n` is the `n`-th byte of a key. For each
/// column: the lowest and the highest byte among the keys that reach it; 0 and 0 if no key does.
fn seen_bytes(keys: &[&[u8]]) -> UsualBytes {
    let mut seen = UsualBytes { lows: [u8::MAX; COLUMNS], highs: [0; COLUMNS] };
    for key in keys {
        for (column, byte) in key.iter().take(COLUMNS).enumerate() {
            seen.lows[column] = seen.lows[column].min(*byte);
            seen.highs[column] = seen.highs[column].max(*byte);
        }
    }
    for column in 0..COLUMNS {
        let is_reached = seen.lows[column] <= seen.highs[column];
        if !is_reached {
            (seen.lows[column], seen.highs[column]) = (0, 0);
        }
    }
    seen
}

/// Whether all keys that reach this column have a decimal digit there.
fn is_decimal(seen: &UsualBytes, column: usize) -> bool {
    seen.lows[column].is_ascii_digit() && seen.highs[column].is_ascii_digit()
}

/// The last column of the decimal number that contains the column `last`; `last` itself if there is
/// no such number.
fn whole_number(seen: &UsualBytes, mut last: usize) -> usize {
    while last + 1 < COLUMNS && is_decimal(seen, last) && is_decimal(seen, last + 1) {
        last += 1;
    }
    last
}

/// Returns the digits of a window that has room for `room` columns. The digits begin at the column
/// `first`, or earlier if decimal digits precede it, but not before the column `least`. They end at
/// the column `last` or before.
fn windowed(seen: &UsualBytes, mut first: usize, least: usize, last: usize, room: usize) -> Digits {
    while first > least && last - first + 1 < room && is_decimal(seen, first) && is_decimal(seen, first - 1) {
        first -= 1;
    }
    // A window reads eight columns: the first window may have to reach beyond the last column that
    // varies.
    Digits { first, end: (first + room).min(last + 1).max(WINDOW) }
}

/// If both bytes are decimal digits, small letters or capital letters: the lowest and the highest
/// byte of that kind. Otherwise the bytes themselves.
fn whole_kind(low: u8, high: u8) -> (u8, u8) {
    let kinds = [(b'0', b'9'), (b'a', b'z'), (b'A', b'Z')];
    let all = kinds.into_iter().find(|(first, last)| *first <= low && high <= *last);
    // A constant letter is part of a name: other letters are not expected there.
    all.filter(|_| low < high || low.is_ascii_digit()).unwrap_or((low, high))
}

/// The size of a block, as a binary logarithm: most ranges fit into one block with much room to
/// spare, but the ranges do not all lie in the same few blocks.
fn block_log2(ends: &[(u64, u64)]) -> u32 {
    let within = |log2: u32| ends.iter().filter(|(first, last)| first >> log2 == last >> log2).count();
    let usual = (0..63).find(|log2| within(*log2) >= ends.len() - ends.len() / 8).unwrap_or(63);
    let most = max_ranges_in_a_block(ends, 0).max(ends.len() / BLOCKS);
    (0..=(usual + ROOM_LOG2).min(63))
        .rev()
        .find(|log2| max_ranges_in_a_block(ends, *log2) <= most)
        .unwrap_or(0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys as stores have them, and others.
    pub(in super::super) fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let numbers = proptest::collection::vec(any::<u32>(), 1..SAMPLES);
        let shapes = (0..5_u32, "[a-z/]{0,30}", 1..12_usize, numbers.clone());
        let shaped = shapes.prop_map(|(shape, prefix, width, numbers)| {
            let key = |number: &u32| match shape {
                0 => format!("{prefix}{number:0width$}"),
                1 => format!("{prefix}{}/{:0width$}", number % 3, number / 3 % 5000),
                2 => format!("{prefix}{number:08x}{:08x}", number.wrapping_mul(0x9e37_79b9)),
                3 => format!("{}/{:0width$}", ["users", "orders", "x"][*number as usize % 3], number % 1000),
                _ => format!("{prefix}{number}"),
            };
            numbers.iter().map(|number| key(number).into_bytes()).collect()
        });
        prop_oneof![
            shaped,
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..SAMPLES)
        ]
    }

    fn samples(keys: &[Vec<u8>]) -> Vec<Sample> {
        let sample = |start: &Vec<u8>| {
            let mut end = start.clone();
            end.push(0);
            Sample { start: Some(start.clone()), end: Some(end) }
        };
        keys.iter().map(sample).collect()
    }

    /// The best scale for these keys, each locked alone; without one, the scale of the first bytes.
    pub(in super::super) fn scale_for(keys: &[Vec<u8>]) -> Scale {
        best(&samples(keys)).unwrap_or(Scale::first_bytes(14))
    }

    /// The number of blocks in which these samples begin.
    fn blocks(scale: &Scale, samples: &[Sample]) -> usize {
        let mut blocks: Vec<u64> = samples.iter().map(|it| it.ends(scale).0 >> scale.block_log2).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks.len()
    }

    /// Ranges of `length` rows at random places, of the tables by turns.
    fn rows(tables: &[&str], width: usize, length: u32) -> Vec<Sample> {
        let row = |at: u32| {
            let (table, number) = (tables[at as usize % tables.len()], at.wrapping_mul(0x9e37_79b9) >> 12);
            let key = |number: u32| Some(format!("{table}{number:0width$}").into_bytes());
            Sample { start: key(number), end: key(number + length) }
        };
        (0..SAMPLES as u32).map(row).collect()
    }

    fn assert_learnt(samples: &[Sample]) {
        let scale = better(samples, &Scale::first_bytes(14)).expect("the first bytes are no good");
        assert!(cost(samples, &scale) <= SAMPLES / 8, "{samples:?} {scale:?}");
        assert!(blocks(&scale, samples) >= BLOCKS, "{samples:?} {scale:?}");
        assert!(better(samples, &scale).is_none(), "it is good enough");
    }

    #[test]
    fn rows_of_one_table_and_of_several_are_in_many_blocks() {
        for (width, length) in [(8, 1), (8, 10), (12, 1)] {
            assert_learnt(&rows(&["customers/2026/r"], width, length));
            assert_learnt(&rows(&["table1/", "table2/"], width, length));
        }
        // Names of different lengths need more bits, and leave eight to longer numbers.
        assert_learnt(&rows(&["users/", "orders/"], 8, 1));
        assert_learnt(&rows(&["users/", "orders/"], 8, 10));
    }

    #[test]
    fn a_few_ranges_of_other_tables_change_nothing() {
        let mut samples = rows(&["customers/2026/r"], 8, 10);
        for (at, key) in [(3, "a"), (10, "z/1"), (20, "customers")] {
            let end = Some(format!("{key}~").into_bytes());
            samples[at] = Sample { start: Some(key.into()), end };
        }
        samples[30] = Sample { start: None, end: None };
        let scale = better(&samples, &Scale::first_bytes(14)).unwrap();
        assert!(cost(&samples, &scale) <= SAMPLES / 8, "{scale:?}");
    }

    #[test]
    fn a_scale_is_kept_if_no_other_is_better() {
        let first = Scale::first_bytes(14);
        // Random keys are apart already.
        let random: Vec<Vec<u8>> = (1..=SAMPLES as u64)
            .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec())
            .collect();
        assert!(better(&samples(&random), &first).is_none());
        // All samples are the same key, or all keys.
        let same = samples(&vec![b"the same key for all".to_vec(); SAMPLES]);
        assert!(better(&same, &first).is_none());
        let all = vec![Sample { start: None, end: None }; SAMPLES];
        assert!(better(&all, &first).is_none());
    }
}
