//! The library's own memory.
//!
//! The program's `malloc` may be anything: replaced, counting, holding a lock that a search for
//! busy-wait loops was started under, or not yet able to work when the first constructor runs. So
//! what the library allocates (while it searches, never on a hot path) comes from an allocator of
//! its own over pages of its own, and goes back to the system when it is freed.
//!
//! The arena has a latch, and some calls may come while the calling thread itself holds it, further
//! up its stack, or while it is held by a thread that is gone since a fork. What these need they
//! allocate [`with_scratch`]: in a mapping of their own, which is given back as a whole when they
//! are done. Their stack is there, too: that of the thread may be as small as its program found
//! enough.
//!
//! A child that was forked in the middle of a change, and without our knowing, begins with an empty
//! heap and frees nothing: see [`crate::latch`].
//!
//! Invariant 1: a [`ScratchArena`] is used only by the thread whose block points to it. The block
//! points to it only while [`with_scratch`] runs, which outlives all that is allocated there.

use crate::latch::{Held, Latch};
use crate::scratch::ScratchArena;
use crate::{stack, thread};
use core::alloc::{GlobalAlloc, Layout};
use dlmalloc::{Allocator, Dlmalloc};
use platform::memory::{READ, WRITE, map_zeroes, page_bytes, unmap};

struct Pages;

// SAFETY: every region handed out is a fresh private mapping of at least the size asked for,
// aligned to a page; none is given back before dlmalloc says that it is unused.
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

/// How much stack [`with_scratch`] has.
const STACK_BYTES: usize = 256 << 10;

/// The scratch arena of the calling thread, if it has one.
fn scratch<'a>() -> Option<&'a ScratchArena> {
    // SAFETY: by Invariant 1 it is there while the thread points to it.
    unsafe { thread::current().scratch.get().as_ref() }
}

/// Calls `work` on a stack of its own. The allocations of `work` wait for no other thread and are
/// gone when it returns. Nothing that `work` allocated may be left by then, it must not unwind, and
/// it needs no more than a few MiB. `None` if there is no memory for it, or if the calling thread
/// does so already.
pub fn with_scratch<R: Copy>(work: impl FnOnce() -> R) -> Option<R> {
    let thread = thread::current();
    if !thread.scratch.get().is_null() {
        return None;
    }
    let start = map_zeroes(STACK_BYTES + ScratchArena::BYTES, READ | WRITE).ok()?;
    let bottom = start.wrapping_add(STACK_BYTES);
    let memory = ScratchArena::new(bottom);
    thread.scratch.set(&raw const memory);
    // SAFETY: the stack is a part of a new mapping, at a page's border; by the caller's promise
    // work does not unwind.
    let result = unsafe { stack::call_on(bottom, work) };
    thread.scratch.set(core::ptr::null());
    // SAFETY: by the caller's promise nothing that was allocated there is left. If the kernel
    // refuses, it stays mapped.
    let _ = unsafe { unmap(start, STACK_BYTES + ScratchArena::BYTES) };
    Some(result)
}

/// The allocator behind every `Box` and `Vec` of the library.
pub struct Arena {
    heap: Latch<Heap>,
}

struct Heap {
    blocks: Dlmalloc<Pages>,
    /// Blocks of an earlier heap, which a fork has torn, may come to be freed: they stay, and so
    /// does everything else.
    keeps: bool,
}

impl Heap {
    const fn new(keeps: bool) -> Heap {
        Heap { blocks: Dlmalloc::new_with_allocator(Pages), keeps }
    }
}

impl Arena {
    /// An empty arena; the first allocation maps its first pages.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Arena { heap: Latch::new(Heap::new(false)) }
    }

    /// The heap; an empty one, if a fork has torn the heap of before.
    fn heap(&self) -> Held<'_, Heap> {
        let mut heap = self.heap.lock();
        if heap.is_torn() {
            heap.replace_torn(Heap::new(true));
        }
        heap
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
        if let Some(scratch) = scratch() {
            return scratch.alloc(layout);
        }
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap().blocks.malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(scratch) = scratch() {
            // The mapping was zeroes, and no part of it is given out twice.
            return scratch.alloc(layout);
        }
        // SAFETY: the caller's promises are dlmalloc's.
        unsafe { self.heap().blocks.calloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if scratch().is_some_and(|scratch| scratch.has(at)) {
            // It goes with all the rest.
            return;
        }
        let mut heap = self.heap();
        if !heap.keeps {
            // SAFETY: the caller's promises are dlmalloc's, and the block is this heap's.
            unsafe { heap.blocks.free(at, layout.size(), layout.align()) }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if let Some(scratch) = scratch().filter(|scratch| scratch.has(at)) {
            // SAFETY: the size is not 0 and fits, as the caller promises; the alignment is one
            // already.
            let new = scratch.alloc(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
            if !new.is_null() {
                // SAFETY: both blocks are at least that long, and no part of the mapping is given
                // out twice.
                unsafe { new.copy_from_nonoverlapping(at, layout.size().min(size)) };
            }
            return new;
        }
        let mut heap = self.heap();
        if !heap.keeps {
            // SAFETY: the caller's promises are dlmalloc's, and the block is this heap's.
            return unsafe { heap.blocks.realloc(at, layout.size(), layout.align(), size) };
        }
        // SAFETY: the size is not 0, as the caller promises.
        let new = unsafe { heap.blocks.malloc(size, layout.align()) };
        if !new.is_null() {
            // SAFETY: both blocks are at least that long, and only this call knows the new one.
            unsafe { new.copy_from_nonoverlapping(at, layout.size().min(size)) };
        }
        new
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

    #[test]
    fn scratch_memory_needs_no_latch_and_is_freed_at_the_end() {
        let arena = Arena::new();
        arena.hold();
        let layout = Layout::from_size_align(100, 64).expect("a layout");
        let seen = with_scratch(|| {
            // SAFETY: every pointer is used within its layout and freed at most once.
            unsafe {
                let first = arena.alloc_zeroed(layout);
                let second = arena.alloc(layout);
                assert!(first.addr().is_multiple_of(64) && second.addr() >= first.addr() + 100);
                first.write(7);
                let grown = arena.realloc(first, layout, 1 << 20);
                assert_eq!((grown.read(), grown.add(99).read()), (7, 0));
                arena.dealloc(grown, Layout::from_size_align(1 << 20, 64).expect("a layout"));
                assert!(arena.alloc(Layout::from_size_align(65 << 20, 1).expect("a layout")).is_null());
            }
            with_scratch(|| ()).is_none()
        });
        assert_eq!(seen, Some(true));
        arena.release();
        // SAFETY: used within its layout and freed once.
        unsafe {
            let usual = arena.alloc(layout);
            assert!(!usual.is_null());
            arena.dealloc(usual, layout);
        }
    }

    #[test]
    fn a_heap_that_a_fork_has_torn_is_replaced_and_its_blocks_are_kept() {
        let arena = Arena::new();
        let layout = Layout::from_size_align(100, 8).expect("a layout");
        // SAFETY: every pointer is used within its layout and freed at most once; one process is
        // another in turn.
        unsafe {
            let old = arena.alloc(layout);
            old.write_bytes(7, 100);
            let mut status = -1;
            arena.hold();
            let child = libc::fork();
            if child == 0 {
                // No thread releases it here.
                let grown = arena.realloc(old, layout, 200);
                let fresh = arena.alloc(layout);
                let good = grown.add(99).read() == 7 && !fresh.is_null() && fresh != old;
                arena.dealloc(old, layout);
                arena.dealloc(fresh, layout);
                platform::memory::exit_now(i32::from(!good));
            }
            arena.release();
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
            arena.dealloc(old, layout);
        }
    }
}
