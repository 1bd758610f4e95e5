//! The positions of keys that are byte strings: the bytes that tell keys apart, and the size of a
//! block.
//!
//! Integers tell their position, and ranges of integers that are close lie in one block. Of strings
//! the first eight bytes say little. Strings with a common prefix all have one position: one shard
//! for all. Strings that differ early, such as `user1000` and `user2000`, are 2^40 positions apart:
//! each range is wide. So a lock of strings has a *scale*, which is learnt from the ranges that are
//! locked (`learn.rs`), and replaced while nothing is held (`rescale.rs`).
//!
//! A scale knows for each column of a key (its first byte, its second, …) the bytes that are usual
//! there: from a lowest one on, a power of two of them. A column with one usual byte is constant
//! and tells nothing. The others are digits. They are read from one window of eight columns, or
//! from two, so that a key costs a dozen instructions and no loop over bytes:
//!
//! ```text
//!   column     0         8         16        24
//!   key        d a t a / t a b l e 0 1 / r o w 0 0 0 4 7 1 1
//!              └── checked ──┘   └─ first ─┘ └ ─ second ─ ┘
//!   position                     01 + bytes   0 0 0 4 7 1 1        each byte less the lowest one of its column
//! ```
//!
//! As long as there are no more than eight digits, each has a byte of the position, and bits that
//! no usual byte needs are gaps. The bits that are no gaps are the scale's *mask*; [`Scale::mask`]
//! lets others step over the gaps. More digits are packed: each has just the bits that the digits
//! of its window need.
//!
//! So decimal numbers of a fixed width have positions that are as close as the numbers, nearly:
//! sixteen positions for ten numbers. Tables with rows, `t1/0001` and `t2/0001`, need no common
//! prefix that ends before the row: both columns count.
//!
//! A string is *regular* if each of the scale's columns has a usual byte. The position of a regular
//! string is its digits as a number. Any other string has a neighbour that is regular:
//! [`Scale::clamped_position`] keeps what comes before the first unusual byte. Where that byte
//! is too high, the highest digits follow. Where it is too low, or the string ends, the lowest
//! digits follow; such a string is *below* its neighbour.
//!
//! Invariants:
//! 1. Of strings `a` < `b` the neighbours are `a'` ≤ `b'`. They agree before the first byte in
//!    which `a` and `b` differ, or one of the two has its unusual byte before that, and so has the
//!    other; at this byte both are clamped into the same interval. Digits are in the order
//!    of regular strings. So the digits of `a'` are no more than those of `b'`.
//! 2. If no digit is dropped for want of bits, different regular strings have different digits.
//!    Then a string below its neighbour has the position before that, and this keeps the order:
//!    with `a'` < `b'` there is room; with `a'` = `b'` and only `b` below it, `b` < `b'` ≤ `a`. The
//!    position before another one is the next lower number without bits in gaps.
//! 3. So, if no digit is dropped, and `end` is regular and has no byte behind the last column, all
//!    strings below `end` have positions below that of `end`, except where that is 0: as with
//!    integers, a range up to `end` stops one position before it.
//! 4. Usual bytes of a column are `low + d` for the numbers `d` that have no bit outside of the
//!    column's mask, and the highest one is no more than 255. The word of lows, subtracted from the
//!    word of eight bytes, leaves no bit outside of the masks if and only if all bytes are usual:
//!    if they are, nothing is borrowed; otherwise the lowest byte in the word that is not usual has
//!    lower ones that borrow nothing, and its own difference, modulo 256, is no such `d`.
//! 5. Each word that a scale reads ends at its [`Scale::length`] or before; so a key that is not
//!    shorter has it.

use super::outline::Outline;

/// Columns that a scale can look at.
pub(super) const COLUMNS: usize = 48;
/// Columns of a window.
pub(super) const WINDOW: usize = 8;
/// The most words of constant columns: what windows leave, in words.
const CHECKS: usize = COLUMNS / WINDOW;

/// The usual bytes of each column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) lows: [u8; COLUMNS],
    pub(super) highs: [u8; COLUMNS],
}

impl Columns {
    /// Bits of a column: those of its usual bytes, less the lowest one.
    fn mask(&self, column: usize) -> u8 {
        self.highs[column] - self.lows[column]
    }

    /// Makes the number of usual bytes of each column a power of two, by some more that are usual
    /// as well (Invariant 4).
    fn round(&mut self) {
        for (low, high) in self.lows.iter_mut().zip(&mut self.highs) {
            let mask = u8::MAX.checked_shr((*high - *low).leading_zeros()).unwrap_or(0);
            *low = (*low).min(u8::MAX - mask);
            *high = *low + mask;
        }
    }
}

/// Columns from `first` up to, and without, `end` are digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Digits {
    const fn count(self) -> usize {
        self.end - self.first
    }
}

/// A word of constant columns, in the machine's order of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Check {
    at: usize,
    expected: u64,
    mask: u64,
}

/// Eight columns, and the digits among them.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    at: usize,
    /// The lowest bytes.
    lows: u64,
    /// The bits that are set where a byte, less the lowest one, is not usual.
    unusual: u64,
    /// The bits of digits.
    keep: u64,
    /// Bits of a digit if digits are packed, 1 to 8.
    bits: u32,
}

/// How keys become positions.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The number of columns.
    length: usize,
    check_count: usize,
    windows: [Window; 2],
    /// There are digits in the second window.
    has_second: bool,
    /// Digits are packed.
    packed: bool,
    /// No digit is dropped.
    exact: bool,
    /// The length of ends that are as Invariant 3 says, if that is possible.
    stops: usize,
    pub(super) block_log2: u32,
    pub(super) coarse_log2: u32,
    /// The first window's digits are turned left by this number of bits, to be before those of the
    /// second one.
    left: u32,
    /// The number of lowest bits of the second window's digits that do not count.
    dropped: u32,
    mask: u64,
    checks: [Check; CHECKS],
    columns: Columns,
}

/// The word of a key that begins at a column.
///
/// # Safety
/// It ends no later than the key.
#[inline(always)]
unsafe fn word(key: &[u8], at: usize) -> [u8; WINDOW] {
    debug_assert!(at + WINDOW <= key.len());
    // SAFETY: the caller's promise; arrays of bytes may be anywhere.
    unsafe { key.as_ptr().add(at).cast::<[u8; WINDOW]>().read() }
}

impl Window {
    /// A window with these digits. Columns behind them are not looked at, those before them are.
    fn new(columns: &Columns, digits: Digits) -> Window {
        let at = digits.end.max(WINDOW) - WINDOW;
        let of =
            |byte: &dyn Fn(usize) -> u8| u64::from_be_bytes(std::array::from_fn(|index| byte(at + index)));
        let is_digit = |column| digits.first <= column && column < digits.end;
        let width = |column: usize| u8::BITS - columns.mask(column).leading_zeros();
        Window {
            at,
            lows: of(&|column| if column < digits.end { columns.lows[column] } else { 0 }),
            unusual: of(&|column| if column < digits.end { !columns.mask(column) } else { 0 }),
            keep: of(&|column| if is_digit(column) { columns.mask(column) } else { 0 }),
            bits: (digits.first..digits.end).map(width).max().unwrap_or(0).max(1),
        }
    }

    /// Each byte, less the lowest one; and a word without bits if all bytes are usual (Invariant
    /// 4).
    ///
    /// # Safety
    /// The key is not shorter than the scale.
    #[inline(always)]
    unsafe fn read(&self, key: &[u8]) -> (u64, u64) {
        // SAFETY: Invariant 5.
        let bytes = u64::from_be_bytes(unsafe { word(key, self.at) }).wrapping_sub(self.lows);
        (bytes, bytes & self.unusual)
    }

    /// Eight digits of a byte become four of twice the bits, two, and one.
    #[inline(always)]
    const fn pack(&self, digits: u64) -> u64 {
        let four = (digits & 0xff00_ff00_ff00_ff00) >> (8 - self.bits) | (digits & 0x00ff_00ff_00ff_00ff);
        let two = (four & 0xffff_0000_ffff_0000) >> (16 - 2 * self.bits) | (four & 0x0000_ffff_0000_ffff);
        (two & 0xffff_ffff_0000_0000) >> (32 - 4 * self.bits) | (two & 0x0000_0000_ffff_ffff)
    }
}

impl Scale {
    /// The scale of the first eight bytes, which a lock uses until it has learnt a better one.
    pub(super) fn first_bytes(block_log2: u32) -> Scale {
        let columns = Columns { lows: [0; COLUMNS], highs: [u8::MAX; COLUMNS] };
        Scale::new(columns, Digits { first: 0, end: WINDOW }, None, block_log2)
    }

    /// The digits of one window, and of another one behind it. Each has at most eight columns. It
    /// ends at column 8 or behind it, except that the first of two with no more than eight columns
    /// together ends anywhere. All other columns before the last digit are constant.
    pub(super) fn new(mut columns: Columns, first: Digits, second: Option<Digits>, block_log2: u32) -> Scale {
        columns.round();
        let mut windows = [Window::new(&columns, first), Window::default()];
        let (mut left, mut dropped, mut packed, mut mask) = (0, 0, false, windows[0].keep);
        let second = second.filter(|_| first.count() as u32 * windows[0].bits < u64::BITS);
        if let Some(digits) = second {
            windows[1] = Window::new(&columns, digits);
            packed = first.count() + digits.count() > WINDOW;
            if packed {
                let bits = [first, digits].map(Digits::count).map(|count| count as u32);
                let second_bits = bits[1] * windows[1].bits;
                left = second_bits.min(u64::BITS - bits[0] * windows[0].bits);
                dropped = second_bits - left;
                mask = u64::MAX;
            } else {
                let behind = windows[0].at + WINDOW - first.end;
                left = u8::BITS * ((WINDOW + digits.count() - behind) % WINDOW) as u32;
                mask = mask.rotate_left(left) | windows[1].keep;
            }
        }
        let mut scale = Scale {
            length: second.unwrap_or(first).end,
            check_count: 0,
            windows,
            has_second: second.is_some(),
            packed,
            exact: dropped == 0,
            stops: if dropped == 0 { second.unwrap_or(first).end } else { usize::MAX },
            block_log2: 0,
            coarse_log2: 0,
            left,
            dropped,
            mask,
            checks: [Check::default(); CHECKS],
            columns,
        };
        scale.check(0, windows[0].at);
        if second.is_some() {
            scale.check(first.end, windows[1].at);
        }
        scale.set_block(block_log2);
        scale
    }

    /// Sets the size of a block, as the binary logarithm of its number of positions.
    pub(super) fn set_block(&mut self, block_log2: u32) {
        self.block_log2 = block_log2;
        self.coarse_log2 = Outline::coarse_log2(block_log2);
    }

    /// The bits that positions may have.
    pub(super) const fn mask(&self) -> u64 {
        self.mask
    }

    /// These columns are constant. The last of them is no less than a word before the scale's end
    /// (Invariant 5).
    fn check(&mut self, from: usize, to: usize) {
        for at in (from..to).step_by(WINDOW) {
            let mask = std::array::from_fn(|index| if at + index < to { u8::MAX } else { 0 });
            let expected = std::array::from_fn(|index| self.columns.lows[at + index]);
            self.checks[self.check_count] =
                Check { at, expected: u64::from_ne_bytes(expected), mask: u64::from_ne_bytes(mask) };
            self.check_count += 1;
        }
    }

    /// The digits of keys, if all of them are regular.
    #[inline(always)]
    fn digits<const KEYS: usize>(&self, keys: [&[u8]; KEYS]) -> Option<[u64; KEYS]> {
        if keys.iter().any(|key| key.len() < self.length) {
            return None;
        }
        let mut unusual = 0;
        for check in self.checks.iter().take(self.check_count) {
            let mut different = 0;
            for key in keys {
                // SAFETY: Invariant 5: the key is not shorter than the scale.
                different |= u64::from_ne_bytes(unsafe { word(key, check.at) }) ^ check.expected;
            }
            unusual |= different & check.mask;
        }
        let [one, two] = &self.windows;
        let mut digits = [0; KEYS];
        for (key, digits) in keys.iter().zip(&mut digits) {
            // SAFETY: as above.
            let (first, also) = unsafe { one.read(key) };
            unusual |= also;
            *digits = first;
        }
        if self.has_second {
            for (key, digits) in keys.iter().zip(&mut digits) {
                // SAFETY: as above.
                let (second, also) = unsafe { two.read(key) };
                unusual |= also;
                *digits = self.join(*digits & one.keep, second & two.keep);
            }
        }
        (unusual == 0).then_some(digits)
    }

    /// The digits of both windows.
    #[inline(always)]
    const fn join(&self, mut first: u64, mut second: u64) -> u64 {
        if self.packed {
            first = self.windows[0].pack(first);
            second = self.windows[1].pack(second) >> self.dropped;
        }
        first.rotate_left(self.left) | second
    }

    /// The position before this one; 0 before the lowest one.
    const fn before(&self, position: u64) -> u64 {
        position.saturating_sub(1) & self.mask
    }

    /// The key's position. No lower key has a higher one.
    pub(super) fn position(&self, key: &[u8]) -> u64 {
        self.digits([key]).map_or_else(|| self.clamped_position(key), |[digits]| digits)
    }

    /// The last position of a range up to `end`: no key below `end` has a higher one.
    pub(super) fn last_before(&self, end: &[u8]) -> u64 {
        match self.digits([end]) {
            Some([digits]) if end.len() == self.stops => self.before(digits),
            Some([digits]) => digits,
            None => self.clamped_position(end),
        }
    }

    /// The position of `start`, and the last one before `end`, which is higher.
    #[inline(always)]
    pub(super) fn ends(&self, start: &[u8], end: &[u8]) -> (u64, u64) {
        match self.digits([start, end]) {
            // There is a position before that of the end, because the start is lower. If it is not,
            // the range is wide.
            Some([first, last]) => (first, last.wrapping_sub(u64::from(end.len() == self.stops)) & self.mask),
            None => self.clamped_ends(start, end),
        }
    }

    /// The positions of both ends, if one of them is not regular.
    #[inline(never)]
    fn clamped_ends(&self, start: &[u8], end: &[u8]) -> (u64, u64) {
        (self.position(start), self.last_before(end))
    }

    /// The position of a key with unusual bytes: that of the nearest regular key (Invariants 1
    /// and 2).
    fn clamped_position(&self, key: &[u8]) -> u64 {
        let Columns { lows, highs } = &self.columns;
        let mut regular = *lows;
        let mut below = true;
        for column in 0..=self.length {
            if column == self.length {
                below = false;
                break;
            }
            match key.get(column) {
                Some(byte) if *byte > highs[column] => {
                    regular[column..].copy_from_slice(&highs[column..]);
                    below = false;
                    break;
                }
                Some(byte) if *byte >= lows[column] => regular[column] = *byte,
                _ => break,
            }
        }
        let [digits] = self.digits([&regular[..]]).expect("it is regular");
        if below && self.exact { self.before(digits) } else { digits }
    }
}

#[cfg(test)]
mod tests {
    use super::super::learn::tests::{keys, scale_for};
    use super::*;
    use proptest::prelude::*;

    /// The keys that a scale was learnt from, cut, lengthened and with bytes changed; and any keys.
    fn near(keys: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
        let changed = (proptest::sample::select(keys), 0..60_usize, any::<u8>(), 0..60_usize, any::<bool>());
        let changed = changed.prop_map(|(mut key, at, byte, length, longer)| {
            if let Some(old) = key.get_mut(at) {
                *old = byte;
            }
            if longer {
                key.extend([0, byte]);
            } else {
                key.truncate(length);
            }
            key
        });
        prop_oneof![changed, proptest::collection::vec(any::<u8>(), 0..12)]
    }

    proptest! {
        #[test]
        fn positions_keep_the_order_of_keys(
            (scale, mut near) in keys().prop_flat_map(|keys| {
                (Just(scale_for(&keys)), proptest::collection::vec(near(keys), 2..40))
            }),
        ) {
            near.sort();
            near.dedup();
            for pair in near.windows(2) {
                let (lower, higher) = (&pair[0], &pair[1]);
                prop_assert!(scale.position(lower) <= scale.position(higher), "{:?} {:?} {:?}", lower, higher, scale);
                prop_assert!(scale.position(lower) <= scale.last_before(higher), "{:?} {:?} {:?}", lower, higher, scale);
                prop_assert!(scale.last_before(lower) <= scale.last_before(higher), "{:?} {:?}", lower, higher);
                prop_assert!(scale.last_before(higher) <= scale.position(higher), "{:?} {:?}", lower, higher);
                prop_assert_eq!(scale.ends(lower, higher), (scale.position(lower), scale.last_before(higher)));
                prop_assert_eq!(scale.position(lower) & !scale.mask(), 0);
                prop_assert_eq!(scale.last_before(lower) & !scale.mask(), 0);
            }
        }

        #[test]
        fn numbers_of_a_fixed_width_have_a_byte_for_each_digit(row in 0_u32..100_000_000, width in 1_u32..1000) {
            let key = |number: u32| format!("customers/2026/r{number:08}").into_bytes();
            let scale = scale_for(&(0..64).map(|at| key(at * 1_500_000)).collect::<Vec<_>>());
            let (zeros, mask) = (u64::from_be_bytes([b'0'; 8]), u64::from_be_bytes([0x0f; 8]));
            let digits = |number: u32| u64::from_be_bytes(format!("{number:08}").into_bytes().try_into().unwrap()) - zeros;
            let end = row.saturating_add(width).min(99_999_999);
            prop_assert_eq!(scale.position(&key(row)), digits(row));
            prop_assert_eq!(scale.last_before(&key(end)), digits(end).saturating_sub(1) & mask);
            // What is below all rows or above them is at the ends.
            prop_assert_eq!(scale.position(b"a"), 0);
            prop_assert_eq!(scale.position(b"d"), mask);
        }
    }

    #[test]
    fn the_first_bytes_are_a_scale() {
        let scale = Scale::first_bytes(14);
        assert_eq!(scale.position(b"abcdefgh"), 0x6162_6364_6566_6768);
        assert_eq!(scale.position(b"abcdefghi"), 0x6162_6364_6566_6768);
        assert_eq!(scale.last_before(b"abcdefgh"), 0x6162_6364_6566_6767);
        assert_eq!(scale.last_before(b"abcdefghi"), 0x6162_6364_6566_6768);
        // The position before that of its neighbour.
        assert_eq!(scale.position(b"abc"), 0x6162_62ff_ffff_ffff);
        assert_eq!(scale.position(b""), 0);
    }
}
