//! Memory for one call: given out piece by piece from the start of a mapping, and never taken back.

use core::alloc::Layout;
use core::cell::Cell;

/// A mapping of zeroes, and how much of it is used.
pub struct ScratchArena {
    start: *mut u8,
    used: Cell<usize>,
}

impl ScratchArena {
    /// How much of it there is. Pages that are not used are never made.
    pub const BYTES: usize = 64 << 20;

    /// The memory from `start` on, of [`ScratchArena::BYTES`] bytes.
    pub fn new(start: *mut u8) -> ScratchArena {
        ScratchArena { start, used: Cell::new(0) }
    }

    /// A piece, of zeroes; null if there is no room.
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        let from = self.start.addr() + self.used.get();
        let Some(skip) = from.checked_next_multiple_of(layout.align()).map(|at| at - self.start.addr())
        else {
            return core::ptr::null_mut();
        };
        match skip.checked_add(layout.size()) {
            Some(used) if used <= Self::BYTES => {
                self.used.set(used);
                self.start.wrapping_add(skip)
            }
            _ => core::ptr::null_mut(),
        }
    }

    /// Whether a piece is one of these.
    pub fn has(&self, at: *mut u8) -> bool {
        (self.start.addr()..self.start.addr() + Self::BYTES).contains(&at.addr())
    }
}
