//! The aliasing area, and how a worker finds free pages in it.
//!
//! ```text
//!   | local area of worker 0 | local area of worker 1 | ... | shared area: blocks as large as a local one |
//!                                                                  ▲ cursor
//! ```
//!
//! LeanStore's algorithm ([`Search::Cursor`], `src/buffer/alias_area.cc`): an object that is
//! smaller than a local area is shown there, and no other worker ever has that. Any other takes
//! whole blocks of the shared area, as many as it needs, from the cursor on. The worker moves the
//! cursor behind them by a compare-and-exchange, and to the beginning if they reach the end; blocks
//! that would go beyond the end are not taken, and the worker begins again at the beginning. Then
//! it tries to lock them. If another worker still has one of them, it takes the next ones in the
//! same way, for as long as it takes: there is no wait.
//!
//! The author's fork ([`Search::Random`], `src/buffer/buffer_manager.cc`): pages anywhere in the
//! whole area, drawn again until they are free.
//!
//! A worker has one object at a time, so its local area is free whenever it asks.

use super::pool::PAGE;
use contend::workers::Padded;
use manx::range::{Access, RawRangeLock, Span};
use platform::atomic::{AtomicU64, Ordering};
use platform::memory;

/// The sizes of the area's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A local area, and a block of the shared one; whole pages.
    pub block_bytes: u64,
    /// The shared area; what is left of it behind the last whole block is not used.
    pub shared_bytes: u64,
}

/// How a worker finds pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// As LeanStore: a local area, then blocks behind a shared cursor.
    Cursor,
    /// As the author's fork: pages anywhere.
    Random,
}

impl Layout {
    /// The pages of a block.
    pub fn block_pages(self) -> u64 {
        self.block_bytes / PAGE as u64
    }

    fn blocks(self) -> u64 {
        self.shared_bytes / self.block_bytes
    }

    /// The pages of all parts.
    pub fn pages(self, threads: usize) -> u64 {
        (threads as u64 + self.blocks()) * self.block_pages()
    }

    /// The keys of the lock: the pages of the shared area, or of all parts.
    pub fn keys(self, search: Search, threads: usize) -> u64 {
        match search {
            Search::Cursor => self.blocks() * self.block_pages(),
            Search::Random => self.pages(threads),
        }
    }
}

/// The next block of the shared area.
pub struct Cursor(Padded<AtomicU64>);

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor(Padded(AtomicU64::new(0)))
    }
}

impl Cursor {
    /// Moves it behind `wanted` blocks, and returns the first of them; none if they would go beyond
    /// the last of `blocks`.
    fn advance(&self, wanted: u64, blocks: u64) -> Option<u64> {
        let cursor = &self.0.0;
        // Relaxed: the lock says whose the blocks are.
        let mut first = cursor.load(Ordering::Relaxed);
        loop {
            let end = first + wanted;
            let next = if end >= blocks { 0 } else { end };
            match cursor.compare_exchange_weak(first, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return (end <= blocks).then_some(first),
                Err(now) => first = now,
            }
        }
    }
}

/// One worker's search.
pub(super) struct Searcher<'a, L> {
    pub(super) lock: &'a L,
    pub(super) cursor: &'a Cursor,
    pub(super) layout: Layout,
    pub(super) search: Search,
    /// The worker's number, of `threads`.
    pub(super) worker: u64,
    pub(super) threads: usize,
    /// The size of an object.
    pub(super) pages: u64,
}

impl<L: RawRangeLock> Searcher<'_, L> {
    /// Reserves pages for an object: the first of them, and what is held for it. Counts the tries
    /// that found pages taken.
    #[inline]
    pub(super) fn reserve(&self, dice: &mut fastrand::Rng, taken: &mut u64) -> (u64, Option<L::Held>) {
        let span = |first, pages| Span::new(first, first + pages).expect("objects have pages");
        if self.search == Search::Random {
            let last = self.layout.pages(self.threads) - self.pages;
            loop {
                let first = dice.u64(..=last);
                if let Some(held) = self.lock.try_lock(&span(first, self.pages), Access::Exclusive) {
                    return (first, Some(held));
                }
                *taken += 1;
            }
        }
        let block_pages = self.layout.block_pages();
        if self.pages < block_pages {
            return (self.worker * block_pages, None);
        }
        let (wanted, blocks) = (self.pages.div_ceil(block_pages), self.layout.blocks());
        assert!(wanted <= blocks, "{wanted} blocks of {blocks}");
        loop {
            let Some(first) = self.cursor.advance(wanted, blocks) else { continue };
            let wanted = span(first * block_pages, wanted * block_pages);
            if let Some(held) = self.lock.try_lock(&wanted, Access::Exclusive) {
                return ((self.threads as u64 + first) * block_pages, Some(held));
            }
            *taken += 1;
        }
    }

    /// Gives the pages back.
    #[inline]
    pub(super) fn release(&self, held: Option<L::Held>) {
        if let Some(held) = held {
            // SAFETY: this lock returned it.
            unsafe { self.lock.unlock(held) };
        }
    }
}

/// The area's memory: anonymous, until extents are mapped over it.
pub(super) struct Area {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: it is memory of the process; the lock says which thread may use which part of it
// (Invariant 1 of the workload).
unsafe impl Sync for Area {}

impl Area {
    pub(super) fn new(pages: u64) -> Result<Area, String> {
        let bytes = pages as usize * PAGE;
        let mapped = memory::map_zeroes(bytes, memory::READ | memory::WRITE);
        let base = mapped.map_err(|error| {
            format!("{bytes} bytes of aliasing area: mmap: {}", std::io::Error::from_raw_os_error(error))
        })?;
        Ok(Area { base, bytes })
    }

    /// Where a page is.
    pub(super) fn page(&self, page: u64) -> *mut u8 {
        assert!((page as usize) < self.bytes / PAGE);
        // SAFETY: within the mapping.
        unsafe { self.base.add(page as usize * PAGE) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is the area's; a pool's pages that were mapped over it belong to the
        // pool's file.
        let _ = unsafe { memory::unmap(self.base, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_wraps_around_and_gives_no_blocks_beyond_the_end() {
        let cursor = Cursor::default();
        let taken: Vec<Option<u64>> = (0..7).map(|_| cursor.advance(3, 8)).collect();
        assert_eq!(taken, [Some(0), Some(3), None, Some(0), Some(3), None, Some(0)]);
        let whole = Cursor::default();
        assert_eq!(
            [whole.advance(4, 8), whole.advance(4, 8), whole.advance(4, 8)],
            [Some(0), Some(4), Some(0)]
        );
    }

    #[test]
    fn keys_are_those_of_the_shared_area_or_of_all() {
        let layout = Layout { block_bytes: 2 * PAGE as u64, shared_bytes: 21 * PAGE as u64 };
        assert_eq!((layout.block_pages(), layout.blocks(), layout.pages(3)), (2, 10, 26));
        assert_eq!((layout.keys(Search::Cursor, 3), layout.keys(Search::Random, 3)), (20, 26));
    }
}
