//! Where in its block a range lies, in 32 bits: enough to see that most ranges are not in the way.
//!
//! A shard's ranges are looked through each time that one is taken. Their slots lie in cache lines
//! that their holders write, and each look at such a line takes it away from a holder. So there is
//! an outline of each range beside the shard's word, and a thread that has the word has all of
//! them. If two outlines of this shard are disjoint, their ranges do not overlap. If they are not,
//! the slot has to be looked at.

/// The first and the last of 65536 parts of a block that a range touches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline {
    first: u16,
    last: u16,
}

impl Outline {
    /// The outline of a range that is not within one block.
    pub(super) const WHOLE: Outline = Outline { first: 0, last: u16::MAX };

    /// Returns the number of lowest bits that do not count in a block of 2^`block_log2` positions.
    pub(super) const fn coarse_log2(block_log2: u32) -> u32 {
        block_log2.saturating_sub(u16::BITS)
    }

    /// The outline of a range within one block.
    #[inline(always)]
    pub(super) const fn within(first: u64, last: u64, coarse: u32) -> Outline {
        Outline { first: (first >> coarse) as u16, last: (last >> coarse) as u16 }
    }

    /// Whether ranges with these outlines may overlap.
    #[inline(always)]
    pub(super) const fn may_overlap(self, other: Outline) -> bool {
        // Without a branch: several are compared at once.
        (self.first <= other.last) & (other.first <= self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_of_one_block_that_overlap_have_outlines_that_overlap(
            block_log2 in 0_u32..=63,
            block: u64,
            offsets: [u64; 4],
        ) {
            let begin = block >> block_log2 << block_log2;
            let mask = (1_u64 << block_log2) - 1;
            let [a, b, c, d] = offsets.map(|offset| begin | (offset & mask));
            let (one, two) = ((a.min(b), a.max(b)), (c.min(d), c.max(d)));
            let overlap = one.0 <= two.1 && two.0 <= one.1;
            let outline = |(first, last)| Outline::within(first, last, Outline::coarse_log2(block_log2));
            prop_assert!(!overlap || outline(one).may_overlap(outline(two)));
            prop_assert!(Outline::WHOLE.may_overlap(outline(one)));
            // Within a block of that size they are exact.
            prop_assert!(block_log2 > 16 || overlap == outline(one).may_overlap(outline(two)));
        }
    }
}
