//! How long a load takes: a walk along pointers.
//!
//! The lines of a block of memory are linked to one ring, in an order drawn at random. The address
//! of each load comes from the load before it, so loads cannot overlap, and no prefetcher can guess
//! it. The time for each is that of one load: from the first cache if the block fits there, from
//! memory if the block is much larger than all caches.
//!
//! The large block asks for huge pages: with pages of 4 KiB most of these loads would also walk the
//! page tables, which an access to a lock's own memory rarely does.

use super::samples::{Samples, batches};
use std::hint::black_box;
use std::ptr;

/// The size of a line here: two lines of most CPUs, because a prefetcher may load them in pairs.
const LINE: usize = 128;
/// A block that fits into the first cache.
const SMALL: usize = 8 << 10;
/// A block that misses the caches of most machines.
const LARGE: usize = 256 << 20;
/// The block is larger than the last-level cache by this factor at least.
const OVER: usize = 8;
/// The largest block.
const LARGE_MAX: usize = 2 << 30;

#[repr(align(128))]
#[derive(Clone, Copy)]
struct Line {
    next: *const Line,
}

/// Lines that point to each other, as one ring. They are not moved after that.
struct Ring(Vec<Line>);

impl Ring {
    fn of(bytes: usize, seed: u64) -> Ring {
        let mut lines = reserve(bytes / LINE);
        let base = lines.as_ptr();
        lines.extend(next(bytes / LINE, seed).into_iter().map(|at| Line { next: base.wrapping_add(at) }));
        debug_assert!(ptr::eq(base, lines.as_ptr()), "the room was reserved");
        Ring(lines)
    }

    /// Goes on by some loads.
    fn walk(&self, mut at: *const Line, loads: u32) -> *const Line {
        for _ in 0..loads {
            // SAFETY: every pointer is to a line of this ring, which lives as long as `self`.
            at = unsafe { ptr::read_volatile(&raw const (*at).next) };
        }
        at
    }

    fn samples(&self, count: usize, loads: u32) -> Samples {
        let mut at = self.0.as_ptr();
        let samples = batches(count, 1, || at = self.walk(at, loads));
        black_box(at);
        samples.over(f64::from(loads))
    }
}

/// Room for some lines, on huge pages if the kernel has them.
fn reserve(lines: usize) -> Vec<Line> {
    const HUGE: usize = 2 << 20;
    let room: Vec<Line> = Vec::with_capacity(lines);
    let start = room.as_ptr().addr().next_multiple_of(HUGE);
    let end = room.as_ptr().addr() + lines * LINE;
    if start < end {
        let place = room.as_ptr().wrapping_byte_add(start - room.as_ptr().addr());
        // SAFETY: the range is within the room, and the advice changes no contents. A refusal
        // leaves small pages.
        unsafe { libc::madvise(place.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
    }
    room
}

/// For each of `count` lines the next one: one ring through all of them (Sattolo 1986).
fn next(count: usize, seed: u64) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut next: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        next.swap(at, random.usize(..at));
    }
    next
}

/// A load from the first cache.
pub fn hit() -> Samples {
    Ring::of(SMALL, 1).samples(400, 10_000)
}

/// A load from memory, where the last-level cache has `cache_bytes` bytes.
pub fn miss(cache_bytes: usize) -> Samples {
    let bytes = cache_bytes.saturating_mul(OVER).clamp(LARGE, LARGE_MAX);
    Ring::of(bytes, 2).samples(400, 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_goes_through_every_line_once() {
        for count in [1, 2, 3, 1000] {
            let next = next(count, 7);
            let (mut at, mut seen) = (0, vec![false; count]);
            for _ in 0..count {
                assert!(!std::mem::replace(&mut seen[at], true));
                at = next[at];
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn a_walk_comes_back_after_as_many_loads_as_there_are_lines() {
        let ring = Ring::of(3 << 20, 1);
        let first = ring.0.as_ptr();
        let lines = ring.0.len() as u32;
        assert!(ptr::eq(ring.walk(first, lines), first));
        assert!(!ptr::eq(ring.walk(first, lines / 2), first));
    }
}
