//! The cost of keys that are strings: the default lock of strings beside the default lock of
//! integers.
//!
//! All threads go through slices of their own, as in W1, and each range of the region has two
//! names: its bytes, which the lock of integers is asked for, and a range of strings. Strings are
//! of several shapes. Each begins with the same 16 bytes, except random strings. All strings are
//! made before anything is measured; a lock has references to them, as a store does that has the
//! keys in its pages.

use super::request::{SPACE, WIDTH};
use manx::range::{Access, RangeGuard, RangeLock, RawRangeLock, Span};
use std::sync::OnceLock;

/// The common prefix of all keys.
const PREFIX: &str = "app/customers/20";
/// Ranges of the region.
pub(super) const RANGES: usize = SPACE / WIDTH;

contention::named! {
    /// The shape of keys.
    pub(super) enum Shape {
        /// Decimal numbers behind the prefix, and ranges of ten.
        Numbers = "manx, numbers",
        /// The same, and only the first one of each ten.
        Points = "manx, points",
        /// The rows of two tables.
        Tables = "manx, tables",
        /// Random ones, and each range is one key.
        Random = "manx, random",
        /// Numbers of different lengths, with letters.
        Lengths = "manx, lengths",
    }
}

impl Shape {
    /// The key of a row; ten rows are a range of the region. Keys are in the order of rows, but for
    /// random ones.
    fn key(self, range: usize, row: usize) -> String {
        match self {
            Shape::Numbers | Shape::Points => format!("{PREFIX}{row:08}"),
            Shape::Tables => format!("{PREFIX}t{}/{row:08}", 1 + range * 2 / RANGES),
            Shape::Random => {
                let mixed = (range as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                format!("{mixed:016x}{:016x}", mixed.rotate_left(31).wrapping_mul(0xd134_2543_de82_ef95))
            }
            Shape::Lengths => format!("{PREFIX}{row:06}{}", &"abcdefghijkl"[..row / 10 * 7 % 13]),
        }
    }

    /// The first and the last key of each range.
    fn ends(self) -> &'static [(String, String)] {
        static ENDS: [OnceLock<Vec<(String, String)>>; Shape::ALL.len()] =
            [const { OnceLock::new() }; Shape::ALL.len()];
        let range = |at: usize| {
            let key = self.key(at, at * 10);
            let end = match self {
                Shape::Numbers | Shape::Lengths | Shape::Tables => self.key(at, at * 10 + 10),
                Shape::Points | Shape::Random => format!("{key}\0"),
            };
            (key, end)
        };
        ENDS[self as usize].get_or_init(|| (0..RANGES).map(range).collect())
    }
}

/// A lock of strings for callers that ask for bytes of the region: for one range at a time, as W1
/// does.
pub(super) struct Strings {
    ends: &'static [(String, String)],
    lock: RangeLock<&'static str>,
}

impl Strings {
    pub(super) fn new(shape: Shape) -> Strings {
        Strings { ends: shape.ends(), lock: RangeLock::new() }
    }

    #[inline(always)]
    fn span(&self, span: &Span<u64>) -> Span<&'static str> {
        let start = span.start().map_or(0, |&start| start as usize);
        let (start, end) = &self.ends[start / WIDTH];
        Span::new(start.as_str(), end.as_str()).expect("ends are in their order")
    }
}

/// A guard as a pointer.
pub(super) struct StringsHeld(*const ());

// SAFETY: any thread may release a range.
unsafe impl Send for StringsHeld {}

// SAFETY: requests of W1 are whole ranges of the region, and different ones have strings that do
// not overlap (tested below). So two that overlap are the same strings, and the lock gives each
// string to one holder at a time.
unsafe impl RawRangeLock for Strings {
    type Held = StringsHeld;

    const NAME: &'static str = "manx, strings";
    const SHARES: bool = true;

    fn with_space(_space: u64) -> Strings {
        Strings::new(Shape::Numbers)
    }

    #[inline]
    fn try_lock(&self, span: &Span<u64>, access: Access) -> Option<StringsHeld> {
        let held = self.lock.try_lock_as(self.span(span), access).ok()?;
        Some(StringsHeld(held.into_raw()))
    }

    #[inline]
    fn lock(&self, span: &Span<u64>, access: Access) -> StringsHeld {
        match self.lock.lock_as(self.span(span), access) {
            Ok(held) => StringsHeld(held.into_raw()),
            Err(error) => panic!("{error}"),
        }
    }

    #[inline]
    unsafe fn unlock(&self, held: StringsHeld) {
        // SAFETY: the guard of this lock that was made into a pointer when the range was taken.
        drop(unsafe { RangeGuard::from_raw(&self.lock, held.0) });
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::{Pattern, THREADS_MAX};
    use super::*;

    #[test]
    fn different_ranges_have_strings_that_do_not_overlap() {
        for shape in Shape::ALL {
            let mut ends = shape.ends().to_vec();
            ends.sort();
            assert_eq!(ends.len(), RANGES);
            assert!(ends.iter().all(|(start, end)| start < end), "{shape:?}");
            assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{shape:?}");
        }
    }

    #[test]
    fn requests_are_whole_ranges() {
        for threads in [1, 2, 8, THREADS_MAX] {
            for thread in 0..threads {
                for request in (Pattern::Own { space: SPACE }).queue(thread, threads) {
                    assert_eq!(request.start as usize % WIDTH, 0);
                    assert_eq!((request.end - request.start) as usize, WIDTH);
                }
            }
        }
    }
}
