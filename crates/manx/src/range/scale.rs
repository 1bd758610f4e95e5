//! The positions of keys that are byte strings: the bytes that tell keys apart, and the size of a
//! block.
//!
//! An integer is its own position, and ranges of integers that are close lie in one block. The
//! first eight bytes of a string say little. Strings with a common prefix would all have one
//! position, and use one shard. Strings that differ early, such as `user1000` and `user2000`, would
//! be 2^40 positions apart, and each range would be wide. So a lock of strings has a *scale*. The
//! lock learns it from the ranges that are locked (`learn.rs`), and replaces it while nothing is
//! held (`rescale.rs`).
//!
//! A scale knows the *usual* bytes of each column of a key. (Column `n` is the `n`-th byte.) They
//! are consecutive, and their number is a power of two. A column with one usual byte is constant
//! and tells nothing. The others are *variable columns*. A *digit* of a key is its byte in such a
//! column, less the lowest usual byte there. (The characters from `0` to `9` are called *decimal
//! digits*.) Digits are read from one window of eight columns, or from two, so that a key costs a
//! dozen instructions and no loop over bytes:
//!
//! ```text
//!   column     0         8         16        24
//!   key        d a t a / t a b l e 0 1 / r o w 0 0 0 4 7 1 1
//!              └── checked ──┘   └─ first ─┘ └ ─ second ─ ┘
//!   position                     01 + bytes   0 0 0 4 7 1 1        each byte less the lowest one of its column
//! ```
//!
//! As long as there are no more than eight digits, each digit has a byte of the position, and the
//! unused bits of its byte are gaps. The bits that are no gaps are the scale's *mask*; with
//! [`Scale::mask`] other files step over the gaps. More than eight digits are packed: each digit
//! has just the bits that the digits of its window need.
//!
//! So decimal numbers of a fixed width have positions that are nearly as close as the numbers:
//! sixteen positions for ten numbers. Keys of several tables work too, such as `t1/0001` and
//! `t2/0001`: the table's number and the row's both count.
//!
//! A string is *regular* if each of the scale's columns has a usual byte. The position of a regular
//! string is its digits as a number. Any other string has a neighbour that is regular:
//! [`Scale::clamped_position`] keeps the bytes before the first unusual byte. If that byte is too
//! high, the highest digits follow. If that byte is too low, or the string ends, the lowest digits
//! follow; such a string is *below* its neighbour.
//!
//! Invariants:
//! 1. If `a` < `b`, their neighbours are `a'` ≤ `b'`. Take the first byte in which `a` and `b`
//!    differ. If an unusual byte comes before it, both strings have that byte, and `a'` = `b'`.
//!    Otherwise the neighbours agree before the byte, and at the byte both strings are clamped into
//!    the same interval. Digits have the order of regular strings. So the digits of `a'` are no
//!    more than those of `b'`.
//! 2. If no digit is dropped because 64 bits are too few, different regular strings have different
//!    digits. Then a string below its neighbour has the position just below its neighbour's. This
//!    keeps the order. If `a'` < `b'`, there is room for that position. If `a'` = `b'`, it cannot
//!    be that `b` alone is below the neighbour, because then `b` < `b'` = `a'` ≤ `a`. The position
//!    just below another one is the next lower number without bits in gaps.
//! 3. So, if no digit is dropped, and `end` is regular and has no byte behind the last column, all
//!    strings below `end` have positions below that of `end`, except where that position is 0: as
//!    with integers, a range up to `end` stops one position before it.
//! 4. The usual bytes of a column are `low + d`, where `d` is any number without bits outside of
//!    the column's mask, and the highest one is at most 255. So a byte is usual if and only if its
//!    difference from `low`, modulo 256, has no bit outside of the mask. One subtraction tests
//!    eight columns: the eight bytes as a word less the eight lows as a word. If all bytes are
//!    usual, no byte borrows from the next one, and no bit outside of the masks is set. Otherwise
//!    take the least significant byte that is not usual: the bytes below it borrow nothing, so the
//!    difference there is right and has a bit outside of its mask.
//! 5. Each word that a scale reads ends at its [`Scale::length`] or before. So every key that is at
//!    least as long as that contains the word.

use super::outline::Outline;

/// Columns that a scale can look at.
pub(super) const COLUMNS: usize = 48;
/// Columns of a window.
pub(super) const WINDOW: usize = 8;
/// The most words of constant columns: what windows leave, in words.
const CHECKS: usize = COLUMNS / WINDOW;

/// The usual bytes of each column: from the lowest to the highest.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsualBytes {
    pub(super) lows: [u8; COLUMNS],
    pub(super) highs: [u8; COLUMNS],
}

impl UsualBytes {
    /// The bits that a digit of the column may have.
    fn mask(&self, column: usize) -> u8 {
        self.highs[column] - self.lows[column]
    }

    /// Adds usual bytes, so that each column has a power of two of them (Invariant 4).
    fn round(&mut self) {
        for (low, high) in self.lows.iter_mut().zip(&mut self.highs) {
            let mask = u8::MAX.checked_shr((*high - *low).leading_zeros()).unwrap_or(0);
            *low = (*low).min(u8::MAX - mask);
            *high = *low + mask;
        }
    }
}

/// The columns of one window whose digits count: from `first` up to, and without, `end`. A constant
/// column among them has the digit 0.
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

/// Eight columns, and which of their digits count.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    at: usize,
    /// The lowest usual byte of each column.
    lows: u64,
    /// A byte is not usual if the byte, less the lowest usual one, has any of these bits.
    unusual: u64,
    /// The bits of the digits that count.
    keep: u64,
    /// The bits of a digit if digits are packed: 1 to 8.
    bits: u32,
}

/// How keys become positions.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    /// The number of columns that the scale reads.
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
    usual: UsualBytes,
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
    /// A window with these digits. Columns behind the digits are not looked at; columns before them
    /// must have usual bytes.
    fn new(usual: &UsualBytes, digits: Digits) -> Window {
        let at = digits.end.max(WINDOW) - WINDOW;
        let of =
            |byte: &dyn Fn(usize) -> u8| u64::from_be_bytes(std::array::from_fn(|index| byte(at + index)));
        let is_digit = |column| digits.first <= column && column < digits.end;
        let width = |column: usize| u8::BITS - usual.mask(column).leading_zeros();
        Window {
            at,
            lows: of(&|column| if column < digits.end { usual.lows[column] } else { 0 }),
            unusual: of(&|column| if column < digits.end { !usual.mask(column) } else { 0 }),
            keep: of(&|column| if is_digit(column) { usual.mask(column) } else { 0 }),
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

    /// Packs eight digits: eight of one byte each become four, then two, then one number, and the
    /// gaps between their bits go.
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
        let usual = UsualBytes { lows: [0; COLUMNS], highs: [u8::MAX; COLUMNS] };
        Scale::new(usual, Digits { first: 0, end: WINDOW }, None, block_log2)
    }

    /// The scale with the digits of one window, and of a second one behind it. Each has at most
    /// eight columns. Each ends at column 8 or behind it; but if both have no more than eight
    /// columns together, the first may end anywhere. All other columns before the last digit are
    /// constant.
    pub(super) fn new(
        mut usual: UsualBytes,
        first: Digits,
        second: Option<Digits>,
        block_log2: u32,
    ) -> Scale {
        usual.round();
        let mut windows = [Window::new(&usual, first), Window::default()];
        let (mut left, mut dropped, mut packed, mut mask) = (0, 0, false, windows[0].keep);
        let second = second.filter(|_| first.count() as u32 * windows[0].bits < u64::BITS);
        if let Some(digits) = second {
            windows[1] = Window::new(&usual, digits);
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
            usual,
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

    /// Adds the checks of the constant columns from `from` up to, and without, `to`. The last check
    /// begins at least a word before the scale's end (Invariant 5).
    fn check(&mut self, from: usize, to: usize) {
        for at in (from..to).step_by(WINDOW) {
            let mask = std::array::from_fn(|index| if at + index < to { u8::MAX } else { 0 });
            let expected = std::array::from_fn(|index| self.usual.lows[at + index]);
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

    /// Joins the digits of both windows to a position.
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
            // There is a position before that of the end, because the start is lower. (If the start
            // is not lower, the subtraction wraps, and the range is wide.)
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
        let UsualBytes { lows, highs } = &self.usual;
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

    /// The keys from which a scale was learnt, cut, lengthened and with bytes changed; and any
    /// keys.
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
            let scale = scale_of_rows();
            // The position we expect: each digit's value in a byte of its own, highest first.
            let zeros = u64::from_be_bytes([b'0'; 8]);
            let digits = |number: u32| u64::from_be_bytes(format!("{number:08}").into_bytes().try_into().unwrap()) - zeros;
            let end = (row + width).min(99_999_999);
            prop_assert_eq!(scale.position(&row_key(row)), digits(row));
            prop_assert_eq!(scale.last_before(&row_key(end)), (digits(end) - 1) & MASK_OF_ROWS);
        }
    }

    /// The mask of eight decimal digits.
    const MASK_OF_ROWS: u64 = u64::from_be_bytes([0x0f; 8]);

    fn row_key(number: u32) -> Vec<u8> {
        format!("customers/2026/r{number:08}").into_bytes()
    }

    /// The scale of rows whose last five digits are constant in the samples, and must count all the
    /// same.
    fn scale_of_rows() -> Scale {
        scale_for(&(0..64).map(|at| row_key(at * 1_500_000)).collect::<Vec<_>>())
    }

    #[test]
    fn keys_below_all_rows_have_the_lowest_position_and_keys_above_the_highest() {
        let scale = scale_of_rows();
        assert_eq!(scale.position(b"a"), 0);
        assert_eq!(scale.position(b"d"), MASK_OF_ROWS);
    }

    #[test]
    fn the_scale_of_the_first_bytes_reads_them_as_a_number() {
        let scale = Scale::first_bytes(14);
        assert_eq!(scale.position(b"abcdefgh"), 0x6162_6364_6566_6768);
        assert_eq!(scale.position(b"abcdefghi"), 0x6162_6364_6566_6768);
        assert_eq!(scale.last_before(b"abcdefgh"), 0x6162_6364_6566_6767);
        assert_eq!(scale.last_before(b"abcdefghi"), 0x6162_6364_6566_6768);
        // Below its neighbour `abc\0\0\0\0\0`: the position before that.
        assert_eq!(scale.position(b"abc"), 0x6162_62ff_ffff_ffff);
        assert_eq!(scale.position(b""), 0);
    }
}
