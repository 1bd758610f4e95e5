//! The key space cut into blocks of equal width, for locks that keep a bit or a word for each.
//!
//! Widths are powers of two, so that finding a key's block is a shift. The last block has all keys
//! from there on, so that every key has a block and ranges without end have a last one.
//!
//! Invariant 1: each key belongs to exactly one block, and no key's block is before a lower key's.

/// The maximum number of blocks, if the caller does not set their width.
pub(super) const BLOCKS_MAX: u64 = 4096;

/// A way to cut the space. See the module's text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// The width of a block is 2 to this power.
    width_log2: u32,
    /// The highest block.
    last: u64,
}

impl Blocks {
    /// Blocks of `width` keys, rounded up to a power of two, as many as keys below `space` need.
    pub(super) fn of_width(space: u64, width: u64) -> Blocks {
        // A width above the highest power of two is as good as that: two blocks have all keys.
        let width_log2 = width.checked_next_power_of_two().map_or(u64::BITS - 1, u64::trailing_zeros);
        Blocks { width_log2, last: space.saturating_sub(1) >> width_log2 }
    }

    /// At most [`BLOCKS_MAX`] blocks, as narrow as that allows.
    pub(super) fn of_space(space: u64) -> Blocks {
        Blocks::of_width(space, space.div_ceil(BLOCKS_MAX))
    }

    /// The block that a key belongs to.
    #[inline]
    pub(super) fn block(self, key: u64) -> u64 {
        (key >> self.width_log2).min(self.last)
    }

    /// The highest block; the lowest is 0.
    pub(super) fn last(self) -> u64 {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_is_cut_into_as_many_blocks_as_it_needs() {
        let spaces = [(0, 0), (1, 0), (4096, 4095), (4097, 2048), (1 << 20, 4095), (u64::MAX, 4095)];
        for (space, last) in spaces {
            assert_eq!(Blocks::of_space(space).last(), last, "{space} keys");
        }
        for (space, width, last) in [(1000, 100, 7), (0, 0, 0), (5, 1, 4), (u64::MAX, u64::MAX, 1)] {
            assert_eq!(Blocks::of_width(space, width).last(), last, "{space} keys by {width}");
        }
    }

    #[test]
    fn the_last_block_has_all_keys_from_there_on() {
        let blocks = Blocks::of_width(256, 64);
        assert_eq!([0, 63, 64, 255, 256, u64::MAX].map(|key| blocks.block(key)), [0, 0, 1, 3, 3, 3]);
        assert_eq!(Blocks::of_space(100).block(u64::MAX), 99);
    }
}
