//! Tables: which line comes first, and how its cells line up.

use core::fmt::{self, Display, Write};

/// Writes a table: the heads, and a line for each of the rows `shown`; `measured` are the same
/// rows, by which the columns get their widths. `cells` shows the cells of a row, each with its
/// column.
pub(super) fn table<W: Write, Row, const COLUMNS: usize>(
    out: &mut W,
    heads: &[&str; COLUMNS],
    text_columns: usize,
    measured: impl Iterator<Item = Row>,
    shown: impl Iterator<Item = Row>,
    cells: impl Fn(&Row, &mut dyn FnMut(usize, &dyn Display)),
) -> fmt::Result {
    let mut widths = heads.map(|head| head.len());
    for row in measured {
        cells(&row, &mut |column, cell| widths[column] = widths[column].max(width(cell)));
    }
    writeln!(out)?;
    line(out, &widths, text_columns, |column, put| put(&heads[column]))?;
    for row in shown {
        // A counter that has become wider meanwhile only spoils its line.
        line(out, &widths, text_columns, |column, put| {
            let mut result = Ok(());
            cells(&row, &mut |at, cell| {
                if at == column {
                    result = put(cell);
                }
            });
            result
        })?;
    }
    Ok(())
}

/// Writes one line of a table, whose cells `cell` puts out by column; the first `text_columns` of
/// them stand to the left, the others to the right.
fn line<W: Write, const COLUMNS: usize>(
    out: &mut W,
    widths: &[usize; COLUMNS],
    text_columns: usize,
    cell: impl Fn(usize, &mut dyn FnMut(&dyn Display) -> fmt::Result) -> fmt::Result,
) -> fmt::Result {
    for (column, &wide) in widths.iter().enumerate() {
        cell(column, &mut |value| {
            if column < text_columns {
                pad_after(out, value, wide)
            } else {
                spaces(out, wide - width(value).min(wide))?;
                write!(out, "{value}")?;
                out.write_str(if column + 1 < widths.len() { "  " } else { "\n" })
            }
        })?;
    }
    Ok(())
}

pub(super) fn pad_after(out: &mut impl Write, value: &dyn Display, wide: usize) -> fmt::Result {
    write!(out, "{value}")?;
    spaces(out, wide - width(value).min(wide) + 2)
}

fn spaces(out: &mut impl Write, count: usize) -> fmt::Result {
    (0..count).try_for_each(|_| out.write_char(' '))
}

/// How many characters `value` takes.
pub(super) fn width(value: &dyn Display) -> usize {
    struct Counter(usize);
    impl Write for Counter {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.chars().count();
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A counter never fails, and neither do the values of this module.
    let _ = write!(counter, "{value}");
    counter.0
}

/// Items in falling order of their keys, each once (Invariant 2).
pub(super) struct Falling<'a, T, const WORDS: usize> {
    items: &'a [T],
    key: fn(&T) -> Option<(u64, u64, u64)>,
    picked: [u64; WORDS],
}

impl<'a, T, const WORDS: usize> Falling<'a, T, WORDS> {
    /// Those of `items` that have a key; there are at most 64 for each word.
    pub(super) fn new(items: &'a [T], key: fn(&T) -> Option<(u64, u64, u64)>) -> Self {
        debug_assert!(items.len() <= 64 * WORDS);
        Falling { items, key, picked: [0; WORDS] }
    }
}

impl<'a, T, const WORDS: usize> Iterator for Falling<'a, T, WORDS> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        let mut best = None;
        for (index, item) in self.items.iter().enumerate() {
            if self.picked[index / 64] & 1 << (index % 64) == 0
                && let Some(key) = (self.key)(item)
            {
                // Of equals the first.
                if best.is_none_or(|(longest, _)| key > longest) {
                    best = Some((key, index));
                }
            }
        }
        let (_, index) = best?;
        self.picked[index / 64] |= 1 << (index % 64);
        Some(&self.items[index])
    }
}
