//! The library's own memory.
//!
//! The program's `malloc` may be anything: replaced, counting, holding a lock that a search for
//! busy-wait loops was started under, or not yet able to work when the first constructor runs. So what
//! the library allocates (while it searches, never on a hot path) comes from an allocator of its own
//! over pages of its own, and goes back to the system when it is freed.

use crate::latch::Latch;
use core::alloc::{GlobalAlloc, Layout};
use dlmalloc::{Allocator, Dlmalloc};
use platform::memory::{READ, WRITE, map_zeroes, page_bytes, unmap};

struct Pages;

// SAFETY: every region handed out is a fresh private mapping of at least the size asked for, aligned to a
// page; none is given back before dlmalloc says that it is unused.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match map_zeroes(size, READ | WRITE) {
            Ok(pages) => (pages, size, 0),
            Err(_) => (core::ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        core::ptr::null_mut()
    }

    fn free_part(&self, pages: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: dlmalloc no longer uses what lies behind the first `new` bytes.
        unsafe { unmap(pages.wrapping_add(new), old - new).is_ok() }
    }

    fn free(&self, pages: *mut u8, size: usize) -> bool {
        // SAFETY: dlmalloc no longer uses these pages.
        unsafe { unmap(pages, size).is_ok() }
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        page_bytes()
    }
}

/// The allocator behind every `Box` and `Vec` of the library.
pub struct Arena {
    heap: Latch<Dlmalloc<Pages>>,
}

impl Arena {
    /// An empty arena; the first allocation maps its first pages.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Arena { heap: Latch::new(Dlmalloc::new_with_allocator(Pages)) }
    }

    /// Before `fork`: no other thread may be in the middle of a change.
    pub fn hold(&self) {
        self.heap.hold();
    }

    /// After `fork`, in parent and child.
    pub fn release(&self) {
        self.heap.release();
    }
}

// SAFETY: dlmalloc meets GlobalAlloc's contract, and the latch lets one thread at a time into it.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap.lock().calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap.lock().free(at, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap.lock().realloc(at, layout.size(), layout.align(), size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_kept_and_given_back() {
        let arena = Arena::new();
        let big = Layout::from_size_align(1 << 20, 64).expect("a layout");
        // SAFETY: every pointer is used within its layout and freed once.
        unsafe {
            for round in 0..100u8 {
                let block = arena.alloc_zeroed(big);
                assert!(!block.is_null() && block.addr().is_multiple_of(64) && block.read() == 0);
                block.write(round);
                let grown = arena.realloc(block, big, 2 << 20);
                assert_eq!(grown.read(), round);
                arena.dealloc(grown, Layout::from_size_align(2 << 20, 64).expect("a layout"));
            }
        }
    }
}
