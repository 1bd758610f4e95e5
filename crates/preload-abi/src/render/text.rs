//! Names, numbers and times, written without allocation and without harm (Invariants 1 and 3 of the
//! module above).

use crate::histogram::Counts;
use core::fmt::{self, Display, Write};

/// Bytes as text for a terminal (Invariant 3).
pub(super) struct Shown<'a>(pub(super) &'a [u8]);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_char(
            self.0,
            |c| if c.is_control() { write!(f, "{}", c.escape_unicode()) } else { f.write_char(c) },
        )
    }
}

/// Bytes as a JSON string (Invariant 3).
pub(super) struct Quoted<'a>(pub(super) &'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        each_char(self.0, |c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            // Every control character is below U+00A0, so four digits suffice.
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })?;
        f.write_char('"')
    }
}

/// Bytes as a JSON string, or `null` if there are none.
pub(super) struct QuotedOrNull<'a>(pub(super) &'a [u8]);

impl Display for QuotedOrNull<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("null") } else { Quoted(self.0).fmt(f) }
    }
}

fn each_char(bytes: &[u8], mut each: impl FnMut(char) -> fmt::Result) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().try_for_each(&mut each)?;
        if !chunk.invalid().is_empty() {
            each(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(())
}

/// A number and its noun.
pub(super) struct Count(pub(super) u64, pub(super) &'static str, pub(super) &'static str);

impl Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, if self.0 == 1 { self.1 } else { self.2 })
    }
}

/// Nanoseconds in the unit that suits them, with three figures; `?` where the clock's rate is not
/// known.
#[derive(Clone, Copy)]
pub(super) struct Duration(pub(super) Option<u64>);

impl Duration {
    /// The duration of `ticks`, of a clock with `ticks_per_second`, which is 0 if it is not known.
    pub(super) fn of_ticks(ticks: u64, ticks_per_second: u64) -> Duration {
        let ns = u128::from(ticks) * 1_000_000_000;
        Duration(ns.checked_div(ticks_per_second.into()).map(|ns| ns.try_into().unwrap_or(u64::MAX)))
    }

    /// The duration that a share of these did not exceed; no more than the longest.
    pub(super) fn percentile(counts: &Counts, share: f64, longest: Duration) -> Duration {
        Duration(longest.0.map(|longest_ns| counts.percentile(share).unwrap_or(0).min(longest_ns)))
    }
}

impl Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("?"),
            Some(ns) => scaled(f, ns, &[("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)]),
        }
    }
}

/// Bytes in the unit that suits them, with three figures.
pub(super) struct Bytes(pub(super) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        scaled(f, self.0, &[("bytes", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
    }
}

/// Writes `value` in the largest unit that it reaches; the first unit is 1.
fn scaled(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, scale) = *units.iter().rev().find(|(_, scale)| value >= *scale).unwrap_or(&units[0]);
    let (whole, rest) = (value / scale, value % scale);
    match whole {
        _ if scale == 1 => write!(f, "{whole} {unit}"),
        0..10 => write!(f, "{whole}.{:02} {unit}", rest * 100 / scale),
        10..100 => write!(f, "{whole}.{} {unit}", rest * 10 / scale),
        _ => write!(f, "{whole} {unit}"),
    }
}

/// A place within its module: its symbol and the offset in it, or its address in the file.
pub(super) struct Place<'a> {
    pub(super) symbol: &'a [u8],
    pub(super) offset: u64,
}

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.symbol.is_empty() { write!(f, "{:#x}", self.offset) } else { Shown(self.symbol).fmt(f) }
    }
}

/// A histogram, as a member of a JSON object: a list of pairs, of where a bucket ends, in
/// nanoseconds, and its count. Empty buckets are left out. What the last bucket has took no longer
/// than `longest_ns`.
pub(super) fn histogram(out: &mut impl Write, key: &str, counts: &Counts, longest_ns: u64) -> fmt::Result {
    write!(out, ", \"{key}\": [")?;
    for (index, (upper_ns, count)) in counts.filled().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let end_ns = if upper_ns == u64::MAX { longest_ns } else { upper_ns };
        write!(out, "{separator}[{end_ns}, {count}]")?;
    }
    out.write_str("]")
}

/// The two times that sites and locks have, as members of a JSON object.
pub(super) fn times(out: &mut impl Write, waited: Duration, longest: Duration) -> fmt::Result {
    for (key, Duration(ns)) in [("waited_ns", waited), ("longest_ns", longest)] {
        match ns {
            Some(ns) => write!(out, ", \"{key}\": {ns}")?,
            None => write!(out, ", \"{key}\": null")?,
        }
    }
    Ok(())
}
