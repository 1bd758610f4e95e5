//! Room for code of ours, in reach of a `jmp rel32` from a module.
//!
//! A loop's copy must lie within two gigabytes of the loop, so that jumps reach it and its own
//! operands relative to the instruction pointer reach what they reached. Blocks of pages are mapped
//! beside the modules and given out in pieces. They are readable and executable, never writable:
//! pieces are written through [`super::text::Text`], as the program's own text is changed, so a
//! policy against pages that are both writable and executable matters in one place only. Only a
//! block's first page is the other way round, its `Head`: it holds a word of data for each piece,
//! which the piece's code can reach as well, and where the piece and its unwind data are.
//!
//! Heads make a list that [`find`] walks, without a lock and from any signal handler, to tell which
//! piece an address is in.
//!
//! Invariants:
//! 1. A piece is complete before a jump leads to it, and stays until no jump does.
//! 2. Bytes of a block are in use or in its list of free ranges, never both, and so are its slots.
//!    Blocks are never unmapped, so that a thread that is late in a copy for a closed library still
//!    finds code.
//! 3. The list of heads only grows, at its front. An entry of a head is zero or describes a piece
//!    that was complete before (release, acquire); it becomes zero before the piece's bytes are
//!    given to another.

use super::mappings::{self, Mapping};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use platform::memory::{EXECUTE, READ, WRITE, map_zeroes_at, protect, unmap};

/// A page, as gaps between mappings are measured.
const PAGE: usize = 4096;
/// Bytes of a block. Pages that hold nothing yet take no memory.
const BLOCK: usize = 16 * PAGE;
/// How far from a module's ends a block may lie so that every `jmp rel32` between the two reaches.
const REACH: usize = 1 << 30;
/// What is kept free below a module, so that a heap or a mapping that grows towards it has some
/// room.
const MARGIN: usize = 1 << 16;

/// How many pieces a block has at most.
const SLOTS: usize = 255;

/// A block's first page; zeroes at first.
#[repr(C)]
struct Head {
    /// The head of the block that was mapped before.
    next: AtomicPtr<Head>,
    /// For each slot: where the piece is, as [`Entry`] packs it; 0: it has no unwind data, or there
    /// is no piece.
    entries: [AtomicU64; SLOTS],
    /// For each slot: the piece's word.
    words: [AtomicU64; SLOTS + 1],
}
const _: () = assert!(size_of::<Head>() == PAGE);

/// The head of the newest block.
static NEWEST: AtomicPtr<Head> = AtomicPtr::new(core::ptr::null_mut());

/// What a head says of a piece: distances from the head's address.
///
/// | bits | |
/// | --- | --- |
/// | 0 to 19 | where it starts |
/// | 20 to 39 | where it ends |
/// | 40 to 59 | where its unwind data are |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: usize,
    end: usize,
    frame: usize,
}

impl Entry {
    const BITS: u32 = 20;

    fn pack(self) -> u64 {
        (self.start | self.end << Entry::BITS | self.frame << (2 * Entry::BITS)) as u64
    }

    fn unpack(packed: u64) -> Entry {
        let part = |n: u32| (packed >> (n * Entry::BITS)) as usize & ((1 << Entry::BITS) - 1);
        Entry { start: part(0), end: part(1), frame: part(2) }
    }
}
const _: () = assert!(BLOCK < 1 << Entry::BITS);

/// A piece of a block that holds code, and its slot.
pub struct Piece {
    /// Where the code is.
    pub code: Range<usize>,
    head: &'static Head,
    slot: usize,
}

impl Piece {
    /// Pieces begin and end at multiples of this.
    pub const ALIGN: usize = 16;

    /// The piece's word; zero at first.
    pub fn word(&self) -> &'static AtomicU64 {
        &self.head.words[self.slot]
    }

    /// Lets unwinders find the piece. Its first `bytes` bytes are written. Its unwind data
    /// (`.eh_frame_hdr`) begin at byte `frame`.
    pub fn has_frame(&self, bytes: usize, frame: usize) {
        let start = self.code.start - core::ptr::from_ref(self.head).addr();
        let entry = Entry { start, end: start + bytes, frame: start + frame };
        // Release: by Invariant 3.
        self.head.entries[self.slot].store(entry.pack(), Ordering::Release);
    }
}

/// The piece that holds `address`, and where its unwind data are; `None` if there is no such piece,
/// or it has none.
pub fn find(address: usize) -> Option<(Range<usize>, usize)> {
    // Acquire: the head's entries were zeroes before it was in the list.
    // SAFETY: heads are never unmapped (Invariant 2).
    let mut head = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    while let Some(this) = head {
        let start = core::ptr::from_ref(this).addr();
        if (start..start + BLOCK).contains(&address) {
            // Acquire: by Invariant 3.
            let mut entries = this.entries.iter().map(|entry| Entry::unpack(entry.load(Ordering::Acquire)));
            let holds = |entry: &Entry| (start + entry.start..start + entry.end).contains(&address);
            let found = entries.find(holds)?;
            return Some((start + found.start..start + found.end, start + found.frame));
        }
        // SAFETY: as above.
        head = unsafe { this.next.load(Ordering::Acquire).as_ref() };
    }
    None
}

struct Block {
    head: &'static Head,
    /// In ascending order, not touching.
    free: Vec<Range<usize>>,
    /// Slots that no piece has.
    free_slots: Vec<usize>,
}

/// All blocks of the process.
#[derive(Default)]
pub struct CodeSpace {
    blocks: Vec<Block>,
}

impl CodeSpace {
    /// No blocks yet.
    pub const fn new() -> CodeSpace {
        CodeSpace { blocks: Vec::new() }
    }

    /// A piece of `bytes` bytes in reach of everything in `module`, if there is room. Nothing leads
    /// to it yet.
    pub fn take(&mut self, module: &Range<usize>, bytes: usize) -> Option<Piece> {
        let bytes = bytes.next_multiple_of(Piece::ALIGN);
        let fits = |range: &Range<usize>| range.len() >= bytes;
        let has_room = |block: &Block| !block.free_slots.is_empty() && block.free.iter().any(fits);
        let found = self.blocks.iter().position(|block| is_near(block.address(), module) && has_room(block));
        let block = match found {
            Some(at) => &mut self.blocks[at],
            None => {
                let mut last = self.blocks.iter().rev().map(Block::address);
                let below = last.find(|&address| is_near(address, module)).map(|last| last - BLOCK);
                self.blocks.push(map(module, below)?);
                self.blocks.last_mut()?
            }
        };
        let at = block.free.iter().position(fits)?;
        let slot = block.free_slots.pop()?;
        let start = block.free[at].start;
        block.free[at].start += bytes;
        block.free.retain(|range| !range.is_empty());
        Some(Piece { code: start..start + bytes, head: block.head, slot })
    }

    fn block_of(&mut self, address: usize) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|block| (block.address()..block.address() + BLOCK).contains(&address))
    }

    /// Takes a piece back that nothing leads to any more.
    pub fn give_back(&mut self, piece: Piece) {
        // By Invariant 3; the latch's release orders it before the piece's bytes change.
        piece.head.entries[piece.slot].store(0, Ordering::Release);
        piece.word().store(0, Ordering::Relaxed);
        if let Some(block) = self.block_of(piece.code.start) {
            block.free_slots.push(piece.slot);
            block.free_bytes(piece.code);
        }
    }
}

impl Block {
    fn address(&self) -> usize {
        core::ptr::from_ref(self.head).addr()
    }

    fn free_bytes(&mut self, bytes: Range<usize>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.free.partition_point(|range| range.start < bytes.start);
        self.free.insert(at, bytes);
        self.free.dedup_by(|next, last| {
            let touch = last.end == next.start;
            if touch {
                last.end = next.end;
            }
            touch
        });
    }
}

/// Whether every `jmp rel32` between a block at this address and the module reaches.
fn is_near(address: usize, module: &Range<usize>) -> bool {
    address < module.start && module.end - address < REACH
        || address > module.end && address - module.start < REACH
}

/// A new block, at `below` if that will do: then the kernel need not be asked what is mapped.
fn map(module: &Range<usize>, below: Option<usize>) -> Option<Block> {
    let mapped = |&address: &usize| map_zeroes_at(address, BLOCK, READ | EXECUTE).is_ok();
    let below = below.filter(|&address| address >= MARGIN && is_near(address, module)).filter(mapped);
    let address = below.or_else(|| places(&mappings::all(), module).find(mapped))?;
    // SAFETY: the block is new: no thread runs, reads or writes there.
    unsafe {
        if protect(address, PAGE, READ | WRITE).is_err() {
            let _ = unmap(address as *mut u8, BLOCK);
            return None;
        }
    }
    // SAFETY: the first page is zeroes, may be written, and is never unmapped (Invariant 2).
    let head: &'static Head = unsafe { &*(address as *const Head) };
    // Only the holder of the guard's latch changes the list.
    head.next.store(NEWEST.load(Ordering::Relaxed), Ordering::Relaxed);
    NEWEST.store(core::ptr::from_ref(head).cast_mut(), Ordering::Release);
    let mut block = Block { head, free: Vec::new(), free_slots: (0..SLOTS).rev().collect() };
    block.free_bytes(address + PAGE..address + BLOCK);
    Some(block)
}

/// Where a block could go: at the upper end of the free gaps below the module, nearest first, then
/// at the upper end of those above it (the lower end of a gap is where a heap grows into).
fn places(mapped: &[Mapping], module: &Range<usize>) -> impl Iterator<Item = usize> {
    let mut below = Vec::new();
    let mut above = Vec::new();
    let mut last = MARGIN;
    for mapping in mapped {
        let gap = last..mapping.range.start;
        last = last.max(mapping.range.end);
        if mapping.grows_down || gap.end < gap.start || gap.end - gap.start < BLOCK {
            continue;
        }
        let margin = if gap.end - gap.start >= 2 * MARGIN + BLOCK { MARGIN } else { 0 };
        let address = (gap.end - margin - BLOCK) & !(PAGE - 1);
        if is_near(address, module) {
            if address < module.start { &mut below } else { &mut above }.push(address);
        }
    }
    below.into_iter().rev().chain(above)
}

#[cfg(test)]
mod tests {
    use super::super::text::Text;
    use super::*;
    use platform::memory::map_zeroes;

    #[test]
    fn pieces_are_given_once_and_again_after_they_came_back() {
        let (mut room, text) = (CodeSpace::new(), Text::open());
        let module = map_zeroes(1 << 20, READ).expect("a module").addr();
        let module = module..module + (1 << 20);
        let code = |n: usize| Vec::from([n as u8; 100]);
        let mut fill = |n: usize| {
            let piece = room.take(&module, 100).expect("room");
            // SAFETY: nothing leads to the piece yet.
            unsafe { text.write(piece.code.start, &code(n)).expect("written") };
            // Every third has no unwind data.
            if !n.is_multiple_of(3) {
                piece.has_frame(100, 64);
            }
            piece
        };
        let count = 2 * SLOTS + 10;
        let pieces: Vec<_> = (0..count).map(&mut fill).collect();
        for (n, piece) in pieces.iter().enumerate() {
            let Range { start, end } = piece.code;
            assert_eq!(end - start, 112);
            assert!(start.abs_diff(module.start).max(start.abs_diff(module.end)) < i32::MAX as usize);
            // SAFETY: reads what was just written.
            assert!(unsafe { super::super::text::holds(start, &code(n)) });
            assert_eq!(piece.word().swap(n as u64 + 1, Ordering::Relaxed), 0);
            let known = (n % 3 > 0).then_some((start..start + 100, start + 64));
            assert_eq!([find(start), find(start + 99), find(start + 100)], [known.clone(), known, None]);
        }
        let starts_with_frames: Vec<_> =
            pieces.iter().map(|piece| piece.code.start).filter(|&start| find(start).is_some()).collect();
        assert_eq!(starts_with_frames.len(), count - count.div_ceil(3));
        let mut starts: Vec<_> = pieces.iter().map(|piece| piece.code.start).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[0] + 112 <= pair[1]));
        assert_eq!(room.blocks.len(), 3);
        pieces.into_iter().rev().for_each(|piece| room.give_back(piece));
        assert!(starts_with_frames.into_iter().all(|start| find(start).is_none()));
        let whole = |b: &Block| Range { start: b.address() + PAGE, end: b.address() + BLOCK };
        let untouched = |b: &Block| b.free.iter().eq([&whole(b)]) && b.free_slots.len() == SLOTS;
        assert!(room.blocks.iter().all(untouched));
        assert!(room.take(&module, BLOCK).is_none(), "larger than a block");
        let again = room.take(&module, 100).expect("room");
        assert_eq!(again.word().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn places_are_free_in_reach_and_never_below_a_stack() {
        let map = |start, end, grows_down| Mapping { range: start..end, is_text: false, grows_down };
        let mapped = [
            map(0x40_0000, 0x50_0000, false),
            map(0x1000_0000, 0x1010_0000, false),
            map(0x2000_0000, 0x2001_0000, true),
            map(0x9000_0000_0000, 0x9000_0001_0000, false),
        ];
        let found: Vec<_> = places(&mapped, &(0x1000_0000..0x1010_0000)).collect();
        assert_eq!(found, [0x1000_0000 - MARGIN - BLOCK, 0x40_0000 - MARGIN - BLOCK]);
    }
}
