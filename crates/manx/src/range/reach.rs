//! Which shards look after which keys.
//!
//! The key space is cut into blocks of 2^n positions, and blocks are dealt to shards so that
//! neighbours have different shards, and so have blocks that are a power of two apart: Fibonacci
//! hashing (Knuth, "The art of computer programming", volume 3, section 6.4). A range over more
//! than [`FEW`] blocks concerns all shards. Several ranges that concern more than [`FEW`] shards
//! together concern all shards as well.
//!
//! Invariant: of two ranges with a key in common, both concern the shard of that key's block, or
//! one of them all shards.

/// The most shards that are concerned without all being so.
const FEW: usize = 8;

/// The shard of a block.
#[inline(always)]
pub(super) const fn shard_of<const SHARDS: usize>(block: u64) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    if SHARDS == 1 {
        return 0;
    }
    (block.wrapping_mul(GOLDEN) >> (64 - SHARDS.trailing_zeros())) as usize
}

/// The shards that some ranges concern.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// The first `count` of these, in their order, each once.
    Few { count: usize, shards: [u16; FEW] },
    /// All of them.
    All,
}

impl Reach {
    /// No shard.
    pub(super) const NONE: Reach = Reach::Few { count: 0, shards: [0; FEW] };

    /// What the range from the one to the other position concerns. Positions have bits of `mask`
    /// only.
    pub(super) fn of<const SHARDS: usize>(first: u64, last: u64, block_log2: u32, mask: u64) -> Reach {
        if SHARDS == 1 {
            return Reach::Few { count: 1, shards: [0; FEW] };
        }
        // A range is inverted by positions if it has no key.
        let last = last.max(first) >> block_log2;
        if mask == u64::MAX && last - (first >> block_log2) >= FEW.min(SHARDS) as u64 {
            return Reach::All;
        }
        // Bits that no position has let the carry through.
        let passed = !mask | ((1 << block_log2) - 1);
        let (mut reach, mut position) = (Reach::NONE, first);
        for _ in 0..FEW.min(SHARDS) {
            let block = position >> block_log2;
            reach = reach.with(shard_of::<SHARDS>(block) as u16);
            if block >= last {
                return reach;
            }
            position = (position | passed).wrapping_add(1) & mask;
        }
        Reach::All
    }

    /// These, if they are few; none if they are all.
    pub(super) fn few(&self) -> &[u16] {
        match self {
            Reach::Few { count, shards } => &shards[..*count],
            Reach::All => &[],
        }
    }

    fn with(self, shard: u16) -> Reach {
        let Reach::Few { count, mut shards } = self else { return Reach::All };
        match shards[..count].binary_search(&shard) {
            Ok(_) => self,
            Err(_) if count == FEW => Reach::All,
            Err(place) => {
                shards.copy_within(place..count, place + 1);
                shards[place] = shard;
                Reach::Few { count: count + 1, shards }
            }
        }
    }

    /// What this and the other one concern together.
    pub(super) fn and(self, other: Reach) -> Reach {
        match other {
            Reach::All => Reach::All,
            Reach::Few { .. } => other.few().iter().fold(self, |reach, shard| reach.with(*shard)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Four bits of each byte.
    const DECIMAL: u64 = 0x0f0f_0f0f_0f0f_0f0f;

    /// The position with the bits of `number` in those of the mask.
    fn positioned(number: u64, mask: u64) -> u64 {
        let bits = (0..u64::BITS).filter(|bit| mask >> bit & 1 != 0);
        bits.enumerate().map(|(at, bit)| (number >> at & 1) << bit).sum()
    }

    proptest! {
        #[test]
        fn ranges_with_a_key_in_common_share_a_shard(
            block_log2 in 0_u32..=20,
            ends: [u32; 4],
            wide: bool,
            mask in prop_oneof![Just(u64::MAX), Just(DECIMAL)],
        ) {
            let span = |one: u32, two: u32| {
                let length = if wide { u64::from(two / 2) } else { u64::from(two) % (4 << block_log2) };
                (u64::from(one) % 1000, u64::from(one) % 1000 + length)
            };
            let (one, two) = (span(ends[0], ends[1]), span(ends[2], ends[3]));
            prop_assume!(one.0 <= two.1 && two.0 <= one.1);
            let reach = |(first, last)| {
                Reach::of::<64>(positioned(first, mask), positioned(last, mask), block_log2, mask)
            };
            let (one, two) = (reach(one), reach(two));
            let share = one.few().iter().any(|shard| two.few().contains(shard));
            prop_assert!(share || matches!(one, Reach::All) || matches!(two, Reach::All));
            prop_assert!(one.few().is_sorted());
        }

        #[test]
        fn neighbours_have_different_shards(block: u64) {
            let Reach::Few { count, .. } = Reach::of::<64>(block << 14 >> 14, (block << 14 >> 14) + 7, 0, u64::MAX) else {
                return Err(TestCaseError::fail("eight blocks are few"));
            };
            prop_assert_eq!(count, 8);
        }

        #[test]
        fn neighbours_are_few_whatever_is_between_them(first in 0_u64..1 << 28, length in 0_u64..20, digits in 0_u32..3) {
            let ends = [first, first + length].map(|number| positioned(number, DECIMAL));
            let reach = Reach::of::<64>(ends[0], ends[1], 8 * digits, DECIMAL);
            let blocks = ((first + length) >> (4 * digits)) - (first >> (4 * digits)) + 1;
            prop_assert_eq!(blocks > 8, matches!(reach, Reach::All));
        }
    }
}
