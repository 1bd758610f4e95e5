//! What is written into a shared file, and how one sees afterwards that no write was torn.
//!
//! A write covers some blocks one behind the other, and fills each with its *stamp*: which thread
//! wrote, which write of that thread it was, and which blocks it covers. So a block tells which
//! write was its last, and which other blocks that one has written, too. If writes exclude each
//! other where they overlap, they happened in some order, each as a whole. From the blocks that are
//! left we learn parts of that order: where a write's block bears another's stamp, the other came
//! later. If these parts contradict each other, there is no such order, and the writes in the
//! contradiction were torn.
//!
//! Invariant: a block is whole if its stamp is repeated all through it. A block of zeroes was never
//! written.

use std::collections::BTreeMap;

/// Bytes of a block.
pub(in crate::range) const BLOCK: usize = 4096;
/// Words of a stamp: the writer and its write, counted from 1, where it began and how many blocks
/// it has.
const WORDS: usize = 4;
const STAMP: usize = WORDS * size_of::<u64>();

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::range) struct Stamp {
    /// The thread, counted from 1.
    pub(in crate::range) writer: u64,
    /// Which of its writes, counted from 1.
    pub(in crate::range) write: u64,
    /// The first block.
    pub(in crate::range) first: u64,
    /// How many.
    pub(in crate::range) blocks: u64,
}

/// What a block is found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Unwritten,
    Of(Stamp),
    Broken,
}

impl Stamp {
    /// Fills the blocks with it.
    pub(in crate::range) fn fill(self, blocks: &mut [u8]) {
        let mut stamp = [0; STAMP];
        let words = [self.writer, self.write, self.first, self.blocks];
        for (bytes, word) in stamp.chunks_exact_mut(size_of::<u64>()).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        blocks.chunks_exact_mut(STAMP).for_each(|place| place.copy_from_slice(&stamp));
    }

    fn blocks(self) -> std::ops::Range<u64> {
        self.first..self.first + self.blocks
    }
}

/// What the block at this place is.
fn block(at: u64, bytes: &[u8]) -> Block {
    let (first, rest) = bytes.split_at(STAMP);
    if rest.chunks_exact(STAMP).any(|stamp| stamp != first) {
        return Block::Broken;
    }
    let word = |index: usize| {
        let bytes = &first[index * size_of::<u64>()..(index + 1) * size_of::<u64>()];
        u64::from_le_bytes(bytes.try_into().expect("a word"))
    };
    let stamp = Stamp { writer: word(0), write: word(1), first: word(2), blocks: word(3) };
    match stamp {
        Stamp { writer: 0, write: 0, first: 0, blocks: 0 } => Block::Unwritten,
        _ if stamp.first.checked_add(stamp.blocks).is_some_and(|end| (stamp.first..end).contains(&at)) => {
            Block::Of(stamp)
        }
        _ => Block::Broken,
    }
}

/// How much of a file of whole blocks cannot have come from whole writes: blocks that are broken,
/// and writes that no order has a place for. 0 if nothing was torn.
pub(in crate::range) fn torn(file: &[u8]) -> u64 {
    let found: Vec<Block> = (0..).zip(file.chunks_exact(BLOCK)).map(|(at, bytes)| block(at, bytes)).collect();
    let broken = found.iter().filter(|block| **block == Block::Broken).count() as u64;
    let mut torn = 0;
    // Which write came later than which, by what is left of them.
    let mut later: BTreeMap<Stamp, Vec<Stamp>> = BTreeMap::new();
    for stamp in
        found.iter().filter_map(|block| if let Block::Of(stamp) = block { Some(*stamp) } else { None })
    {
        if later.contains_key(&stamp) {
            continue;
        }
        let mut others = Vec::new();
        for at in stamp.blocks() {
            match usize::try_from(at).ok().and_then(|at| found.get(at)) {
                Some(Block::Of(other)) if *other == stamp => {}
                Some(Block::Of(other)) => others.push(*other),
                Some(Block::Broken) => {}
                // A part of it is missing.
                Some(Block::Unwritten) | None => torn += 1,
            }
        }
        others.sort_unstable();
        others.dedup();
        later.insert(stamp, others);
    }
    broken + torn + contradicted(later)
}

/// Returns how many writes have no place in any order. A write without a later write is taken out,
/// again and again. The writes that stay have no place: each came before another write that stays.
fn contradicted(mut later: BTreeMap<Stamp, Vec<Stamp>>) -> u64 {
    let mut waiting: BTreeMap<Stamp, usize> = BTreeMap::new();
    let mut earlier: BTreeMap<Stamp, Vec<Stamp>> = BTreeMap::new();
    for (stamp, others) in &later {
        waiting.insert(*stamp, others.len());
        others.iter().for_each(|other| earlier.entry(*other).or_default().push(*stamp));
    }
    let mut last: Vec<Stamp> =
        waiting.iter().filter(|(_, others)| **others == 0).map(|(stamp, _)| *stamp).collect();
    while let Some(stamp) = last.pop() {
        later.remove(&stamp);
        for before in earlier.get(&stamp).into_iter().flatten() {
            let left = waiting.get_mut(before).expect("whoever is earlier is known");
            *left -= 1;
            if *left == 0 {
                last.push(*before);
            }
        }
    }
    later.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(writer: u64, first: u64, blocks: u64) -> Stamp {
        Stamp { writer, write: 1, first, blocks }
    }

    /// A file of `blocks.len()` blocks; each bears the stamp that is given for it.
    fn file(blocks: &[Option<Stamp>]) -> Vec<u8> {
        let mut bytes = vec![0; blocks.len() * BLOCK];
        for (place, stamp) in bytes.chunks_exact_mut(BLOCK).zip(blocks) {
            if let Some(stamp) = stamp {
                stamp.fill(place);
            }
        }
        bytes
    }

    #[test]
    fn whole_writes_in_any_order_are_not_torn() {
        let (a, b, c) = (stamp(1, 0, 3), stamp(2, 2, 3), stamp(3, 4, 2));
        for writes in [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]] {
            let mut bytes = file(&[None; 7]);
            for write in writes {
                let range = write.first as usize * BLOCK..(write.first + write.blocks) as usize * BLOCK;
                write.fill(&mut bytes[range]);
            }
            assert_eq!(torn(&bytes), 0, "{writes:?}");
        }
        assert_eq!(torn(&file(&[None; 3])), 0);
    }

    #[test]
    fn two_that_each_came_after_the_other_are_torn() {
        let (a, b) = (Some(stamp(1, 0, 4)), Some(stamp(2, 0, 4)));
        assert_eq!(torn(&file(&[a, a, b, b])), 2);
        // Also where they overlap in a part only.
        let (a, b) = (Some(stamp(1, 0, 4)), Some(stamp(2, 1, 4)));
        assert_eq!(torn(&file(&[a, a, b, a, b])), 2);
    }

    #[test]
    fn three_that_overlap_are_torn_if_each_came_after_another() {
        let (a, b, c) = (stamp(1, 0, 3), stamp(2, 1, 4), stamp(3, 2, 5));
        // By block 1 a came after b, by 3 b after c, by 2 c after a.
        assert_eq!(torn(&file(&[a, a, c, b, b, c, c].map(Some))), 3);
        assert_eq!(torn(&file(&[a, a, a, b, b, c, c].map(Some))), 0);
    }

    #[test]
    fn broken_and_missing_blocks_are_torn() {
        let a = Some(stamp(1, 0, 2));
        assert_eq!(torn(&file(&[a, None])), 1, "a block was never written");
        assert_eq!(torn(&file(&[a])), 1, "the file ends in the midst of it");
        let mut bytes = file(&[a, a]);
        bytes[BLOCK + 100] ^= 1;
        assert_eq!(torn(&bytes), 1, "a block is of two pieces");
        assert_eq!(torn(&file(&[None, None, a])), 1, "a block is where it was not written");
    }
}
