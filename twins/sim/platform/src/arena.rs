//! Memory at the same places in each run: which objects share a cache line follows from them.
//!
//! The threads of a program that is run get memory from an *arena*. A run begins at a multiple of
//! `WINDOW_BYTES`, and a freed block of some size is the next one of that size. So where a block
//! lies in its window depends on what the program asks for and on nothing else. All other memory is
//! the system's.
//!
//! 1. An arena belongs to one thread of the operating system, which alone takes from it and gives
//!    back to it. A block that another thread frees is lost.
//! 2. A block is in use until it is given back. What outlives its run, as results do, stays: the
//!    next run begins behind it. When no block is in use, the arena begins anew.
//! 3. A function that refers to the arena allocates nothing meanwhile, and calls no function that
//!    refers to it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of an arena, in bytes of address space. Only the pages that are used take memory.
const ARENA_BYTES: usize = 1 << 32;
/// How many arenas there are at most.
const ARENAS_MAX: usize = 64;
/// Where a run begins: more than a page or a line of any machine.
const WINDOW_BYTES: usize = 1 << 21;
/// Blocks have sizes that are powers of two, from 16 bytes on.
const SIZES: usize = 28;
const SIZE_MIN: usize = 16;

/// The allocator of a program that measures on a simulated machine.
///
/// ```no_run
/// #[global_allocator]
/// static ALLOCATOR: platform_sim::memory::Allocator = platform_sim::memory::Allocator;
/// ```
#[derive(Debug)]
pub struct Allocator;

/// The address space of all arenas, once it is there; 0 if there is none.
static REGION: OnceLock<usize> = OnceLock::new();
static ARENAS: AtomicUsize = AtomicUsize::new(0);

struct Arena {
    /// Its own address space; 0: there is none yet.
    start: usize,
    /// Where the run has begun in it, and how far it is used.
    begun: usize,
    used: usize,
    in_use: usize,
    free: [usize; SIZES],
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static ARENA: UnsafeCell<Arena> =
        const { UnsafeCell::new(Arena { start: 0, begun: 0, used: 0, in_use: 0, free: [0; SIZES] }) };
}

/// A run begins on this thread of the operating system.
pub(crate) fn begin() {
    // SAFETY: the arena is this thread's (rule 1), and this is the only reference to it (rule 3).
    ARENA.with(|arena| unsafe { (*arena.get()).begin() });
}

/// Whether a thread of the program runs, until the result is dropped.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn enter() -> Inside {
        INSIDE.set(true);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

impl Arena {
    fn begin(&mut self) {
        if self.start == 0 {
            let region = *REGION.get_or_init(map);
            let number = ARENAS.fetch_add(1, Ordering::Relaxed);
            self.start = if region == 0 || number >= ARENAS_MAX { 0 } else { region + number * ARENA_BYTES };
        }
        self.begun = if self.in_use == 0 { 0 } else { self.used.next_multiple_of(WINDOW_BYTES) };
        (self.used, self.free) = (self.begun, [0; SIZES]);
    }

    fn take(&mut self, layout: Layout) -> *mut u8 {
        let (bytes, size) = size(layout);
        if self.start == 0 || size >= SIZES {
            return std::ptr::null_mut();
        }
        let first = self.free[size];
        if first != 0 {
            let block = std::ptr::with_exposed_provenance_mut::<usize>(first);
            // SAFETY: a free block holds the address of the next one, and belongs to the arena.
            self.free[size] = unsafe { block.read() };
            self.in_use += 1;
            return block.cast();
        }
        let offset = self.used.next_multiple_of(bytes);
        if offset + bytes > ARENA_BYTES {
            return std::ptr::null_mut();
        }
        self.used = offset + bytes;
        self.in_use += 1;
        std::ptr::with_exposed_provenance_mut(self.start + offset)
    }

    /// Takes a block of this arena back.
    fn give_back(&mut self, block: *mut u8, layout: Layout) {
        self.in_use -= 1;
        if block.addr() < self.start + self.begun {
            // Of a run before: it would not be there in each run.
            return;
        }
        let (_, size) = size(layout);
        // SAFETY: the block is free, large enough and aligned for an address.
        unsafe { block.cast::<usize>().write(self.free[size]) };
        self.free[size] = block.expose_provenance();
    }
}

/// How many bytes a block has that holds this, and the number of that size.
fn size(layout: Layout) -> (usize, usize) {
    let bytes = layout.size().max(layout.align()).max(SIZE_MIN).next_power_of_two();
    (bytes, (bytes.trailing_zeros() - SIZE_MIN.trailing_zeros()) as usize)
}

/// Address space for all arenas; 0 if there is none.
fn map() -> usize {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let bytes = (ARENAS_MAX + 1) * ARENA_BYTES;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED { 0 } else { start.expose_provenance().next_multiple_of(ARENA_BYTES) }
}

// SAFETY: a block of the arena has the size and the alignment that were asked for, because both are
// at most its size, which is a power of two, and it lies at a multiple of that. It is given out
// once (rule 2). All other blocks are the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if INSIDE.get() {
            // SAFETY: by rules 1 and 3, as in `begin`.
            let block = ARENA.with(|arena| unsafe { (*arena.get()).take(layout) });
            if !block.is_null() {
                return block;
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let region = REGION.get().copied().unwrap_or(0);
        let offset = block.addr().wrapping_sub(region);
        if region == 0 || offset >= ARENAS_MAX * ARENA_BYTES {
            // SAFETY: it is the system's, by the caller's promise.
            return unsafe { System.dealloc(block, layout) };
        }
        ARENA.with(|arena| {
            // SAFETY: by rules 1 and 3, as in `begin`.
            let arena = unsafe { &mut *arena.get() };
            if arena.start == region + offset / ARENA_BYTES * ARENA_BYTES {
                arena.give_back(block, layout);
            }
        });
    }
}
